"""Columns of interactions: which of a table's columns they are, their check and conversion.

Columns that nobody named are guessed. Names are compared by their letters and digits, ignoring
case: ``user_id``, ``userId``, ``User ID`` and ``USERID`` are the same. A name with "user" or "item"
comes before other words for them: ``user_id`` before ``customer_id``. If two columns fit equally
well, neither is chosen, and the error names both.

Tables are read in pieces, and ids never become Python objects: text ids are numbered while they are
read (Polars' categoricals), so a row costs four bytes whatever the length of its ids.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray


@dataclass(frozen=True)
class RawInteractions:
    """The result of every reader: interactions with the ids of their file.

    Attributes:
        train: columns ``user`` and ``item`` (whole numbers or text, never empty) and, if requested,
            ``rating`` and ``timestamp`` (finite numbers).
        test: the same for the test part, or None if the files have none.
        titles: columns ``item`` and ``title``, or None.
        name: name of the data set in tables and messages.
        report: what the reader left out, as phrase and count.
    """

    train: pl.DataFrame
    test: pl.DataFrame | None = None
    titles: pl.DataFrame | None = None
    name: str = "interactions"
    report: Mapping[str, int] = field(default_factory=dict)


class BadRowError(ValueError):
    """A row lacks a value, has too many, or has one that cannot be read."""


class NotUTF8Error(ValueError):
    """A text file is not UTF-8."""


_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""Suffixes of a word; a thing's number comes before the thing."""

_USERS = (
    "customer client member visitor viewer reader listener player buyer shopper reviewer account "
    "profile person consumer subscriber session"
)
_ITEMS = (
    "movie film product book article song track artist business restaurant venue place location "
    "poi video game app recipe anime beer course job offer listing hotel sku asin isbn goods news"
)
_RATINGS = "rating ratings stars score overall rate userrating"
_TIMES = (
    "timestamp time datetime date ts unixtime unixreviewtime reviewtime eventtime createdat ratedat"
)


def _forms(words: str) -> list[set[str]]:
    """Spellings of some words, those with a number first."""
    return [{word + key for word in words.split()} for key in _KEYS]


_GUESSES: Mapping[str, Sequence[set[str]]] = {
    # A table with both "item" and "item_id" may hold titles in the first, or line numbers in the
    # second: they fit equally well, and the reader has to say which.
    "user": [{"user", "userid"}, *_forms("user"), {"uid"}, *_forms(_USERS)],
    "item": [{"item", "itemid"}, *_forms("item"), {"iid"}, *_forms(_ITEMS)],
    "rating": [{name} for name in _RATINGS.split()],
    "timestamp": [{name} for name in _TIMES.split()],
}
"""Sets of names for each kind of column; the first set with a name in the header decides."""


def chosen_columns(
    header: Sequence[str], wanted: Mapping[str, str | None], where: object, what: str = "column"
) -> dict[str, str]:
    """The names of the wanted columns.

    Args:
        header: the names of the table's columns.
        wanted: the given name for each of "user", "item", "rating" and "timestamp"; None to guess
            it.
        where: name of the table in messages.
        what: word for a column in messages.

    Returns:
        A name in the header for each wanted column.

    Raises:
        ValueError: if a name is not in the header, occurs twice or was given twice; or if no name,
            or more than one, fits.

    Example:
        >>> chosen_columns(["userId", "movieId", "rating"], {"user": None, "item": None}, "a.csv")
        {'user': 'userId', 'item': 'movieId'}
    """
    shown = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
    free = [name for name in header if name not in wanted.values()]
    columns: dict[str, str] = {}
    for kind, name in wanted.items():
        option = f"--{kind}-column"
        fitting = _guessed(kind, free) if name is None else [name] * (name in header)
        if len(set(fitting)) > 1:
            raise ValueError(
                f"{where} has {len(fitting)} {what}s that look like {kind}s, "
                f"{', '.join(fitting)}: name the right one with {option}"
            )
        if not fitting:
            lacking = f"that looks like {kind}s" if name is None else f"{name!r} for the {kind}s"
            headless = any(re.fullmatch(r"-?\d+(\.\d+)?", value) for value in header)
            raise ValueError(
                f"{where} has no {what} {lacking}; it has {shown}: name the right one with {option}"
                + (", or add --no-header if this is the first row of the data" * headless)
            )
        [name] = set(fitting)
        if name in columns.values():
            raise ValueError(f"{where}: {what} {name!r} is used twice ({option})")
        if header.count(name) > 1:
            raise ValueError(f"{where} has {header.count(name)} {what}s called {name!r}")
        columns[kind] = name
    return columns


def _guessed(kind: str, header: Sequence[str]) -> list[str]:
    """The columns that look most like something."""
    plain = {name: re.sub(r"[\W_]+", "", name.casefold()) for name in header}
    matches = ([name for name in header if plain[name] in names] for names in _GUESSES[kind])
    return next(filter(None, matches), [])


def interaction_columns(
    frame: pl.LazyFrame,
    place: Callable[[int], str],
    *,
    whole_ids: bool = False,
    skip_bad_rows: bool = False,
) -> tuple[pl.DataFrame, int]:
    """Check ids and turn ratings and timestamps into numbers.

    Ids are stripped text or whole numbers. Floating-point ids with whole values, as other tools
    write for whole numbers next to missing ones, count as whole numbers.

    Args:
        frame: the columns ``row``, the number of each row in its file; ``user``, ``item`` and maybe
            ``rating`` and ``timestamp``, of any type; and maybe ``surplus``, which is not null in
            rows with too many values.
        place: returns the location of a row for error messages, given its number; it may raise its
            own error if the whole row is damaged.
        whole_ids: whether ids must be whole numbers.
        skip_bad_rows: whether rows with a missing or invalid value are left out.

    Returns:
        The columns without ``row`` and ``surplus``, ids as Int64 or Categorical; and the number of
        rows left out.

    Raises:
        BadRowError: for the first row with a missing or invalid value.
    """
    types = dict(frame.collect_schema())
    del types["row"]
    ids = _whole_ids if whole_ids else _ids
    converters = {"rating": _numbers, "timestamp": _times, "surplus": _surplus}
    wanted = [converters.get(name, ids)(name, dtype).alias(name) for name, dtype in types.items()]
    table = frame.with_columns(wanted).select(*types).collect(engine="streaming")
    columns = [_finished(table[name], dtype) for name, dtype in types.items()]
    found = pl.DataFrame(columns).drop("surplus", strict=False)
    damaged = [column.is_null() for column in columns if column.null_count()]
    if not damaged:
        return found, 0
    bad = reduce(operator.or_, damaged)
    if skip_bad_rows:
        return found.filter(~bad), int(bad.sum())
    first = int(bad.arg_true()[0])
    row = frame.slice(first, 1).collect()
    where = place(int(row["row"][0]))
    name = next(column.name for column in columns if column[first] is None)
    value = row[name][0]
    if value is None or str(value).strip() == "":
        raise BadRowError(f"{where}: there is no {name}")
    kind = {"rating": "a finite number", "timestamp": "a number or a date"}.get(name)
    kind = kind or ("a whole number" if whole_ids else "a whole number or text")
    raise BadRowError(f"{where}: {name} must be {kind}, got {value!r}")


# Each converter returns null where a value is missing or invalid.


def _whole_ids(name: str, dtype: pl.DataType) -> pl.Expr:
    """Whole numbers in text."""
    del dtype
    return pl.col(name).str.strip_chars().cast(pl.Int64, strict=False)


def _ids(name: str, dtype: pl.DataType) -> pl.Expr:
    """Whole numbers or text."""
    if dtype.is_integer() and dtype != pl.UInt64:
        return pl.col(name).cast(pl.Int64)
    if dtype.is_float():
        return pl.col(name).fill_nan(None)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null):
        return pl.lit(None)
    return _named(pl.col(name).cast(pl.String))


def _named(text: pl.Expr) -> pl.Expr:
    """Stripped text, numbered; null if it ends in NUL, which NumPy drops from an id."""
    text = text.str.strip_chars()
    valid = (text.str.len_bytes() > 0) & ~text.str.ends_with("\0")
    return pl.when(valid).then(text).cast(pl.Categorical)


def _numbers(name: str, dtype: pl.DataType) -> pl.Expr:
    """Finite numbers."""
    column = pl.col(name)
    if dtype == pl.String:
        column = column.str.strip_chars()
    elif not dtype.is_numeric():
        return pl.lit(None)
    numbers = column.cast(pl.Float64, strict=False)
    return pl.when(numbers.is_finite()).then(numbers)


def _times(name: str, dtype: pl.DataType) -> pl.Expr:
    """Numbers as they are, dates as seconds since 1970; text is left for later."""
    if dtype == pl.String:
        return pl.col(name).str.strip_chars()
    if dtype in (pl.Date, pl.Datetime):
        moment = pl.col(name).cast(pl.Datetime("us")) if dtype == pl.Date else pl.col(name)
        return moment.dt.epoch("us").cast(pl.Float64) / 1e6
    return _numbers(name, dtype)


def _surplus(name: str, dtype: pl.DataType) -> pl.Expr:
    """True in rows without a value too many."""
    del dtype
    return pl.when(pl.col(name).is_null()).then(statement=True)


def _finished(column: pl.Series, dtype: pl.DataType) -> pl.Series:
    """Conversions that need the whole column."""
    if column.name == "timestamp" and column.dtype == pl.String:
        return _moments(column)
    if column.name in ("user", "item") and dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        if ((whole == column) | column.is_null()).all():
            return whole
        return column.to_frame().select(_named(pl.first().cast(pl.String))).to_series()
    return column


def _moments(text: pl.Series) -> pl.Series:
    """Numbers or dates in text, as seconds since 1970."""
    numbers = text.to_frame().select(_numbers(text.name, text.dtype).alias(text.name)).to_series()
    if numbers.null_count():
        try:
            moments = text.str.to_datetime(time_unit="us", strict=False)
        except pl.exceptions.ComputeError:  # nothing in it looks like a date
            return numbers
        if moments.null_count() < numbers.null_count():
            return moments.dt.epoch("us").cast(pl.Float64) / 1e6
    return numbers


def common_ids(columns: list[pl.Series]) -> list[pl.Series]:
    """The same ids in columns of one type: whole numbers if all are, else text.

    Args:
        columns: columns of a type that :func:`interaction_columns` returns, or text.

    Returns:
        Columns that are all Int64 or all Categorical.

    Example:
        >>> [ids.to_list() for ids in common_ids([pl.Series(["7", "12"]), pl.Series([3])])]
        [[7, 12], [3]]
        >>> [ids.to_list() for ids in common_ids([pl.Series(["007", "12"]), pl.Series([3])])]
        [['007', '12'], ['3']]
    """
    if all(column.dtype == pl.Int64 for column in columns):
        return columns
    texts = [
        column.cast(pl.String).cast(pl.Categorical) if column.dtype != pl.Categorical else column
        for column in columns
    ]
    names = [text.unique().cast(pl.String) for text in texts]
    whole = r"^(0|-?[1-9]\d{0,17})$"  # "7", but neither "07" nor "7.0"
    if not all(name.str.contains(whole).all() for name in names):
        return texts
    return [
        pl.Series(text.name, looked_up(text, name, name.cast(pl.Int64).to_numpy()))
        for text, name in zip(texts, names, strict=True)
    ]


def looked_up(column: pl.Series, names: pl.Series, values: NDArray[Any]) -> NDArray[Any]:
    """A value for each row of a categorical column.

    Args:
        column: the categories.
        names: the text of every category of the column, each once.
        values: the value of each name.
    """
    places = names.cast(pl.Categorical).to_physical().to_numpy()
    table = np.zeros(int(places.max(initial=0)) + 1, dtype=values.dtype)
    table[places] = values
    return table[column.to_physical().to_numpy()]
