"""Columns of interactions: which of a table's columns they are, their check and conversion.

Columns without given names are guessed. Names are compared by their letters and digits, ignoring
case: ``user_id``, ``userId``, ``User ID`` and ``USERID`` are the same. A name with "user" or "item"
comes before other words for them: ``user_id`` before ``customer_id``. If two columns fit equally
well, neither is chosen, and the error names both.

Tables are read in pieces, and ids never become Python objects: text ids are numbered while they are
read (Polars' categoricals), so a row takes four bytes for ids of any length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.times import times


@dataclass(frozen=True)
class RawInteractions:
    """The result of every reader: interactions with the ids of their file.

    ``train`` and ``test`` have columns ``user`` and ``item`` (whole numbers or text, never empty)
    and, if requested, ``rating`` and ``timestamp`` (finite numbers); ``titles`` has ``item`` and
    ``title``. The report holds what the reader left out, as phrase and count.
    """

    train: pl.DataFrame
    test: pl.DataFrame | None = None
    titles: pl.DataFrame | None = None
    name: str = "interactions"
    report: Mapping[str, int] = field(default_factory=dict)


_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""Suffixes of a word; a thing's number comes before the thing."""


def _forms(words: str) -> list[set[str]]:
    """Spellings of some words, those with a number first."""
    return [{word + key for word in words.split()} for key in _KEYS]


_USERS = _forms(
    "customer client member visitor viewer reader listener player buyer shopper reviewer account "
    "profile person consumer subscriber session"
)
_ITEMS = _forms(
    "movie film product book article song track artist business restaurant venue place location "
    "poi video game app recipe anime beer course job offer listing hotel sku asin isbn goods news"
)
_RATINGS = "rating ratings stars score overall rate userrating"
_TIMES = (
    "timestamp time datetime date ts unixtime unixreviewtime reviewtime eventtime createdat ratedat"
)
_GUESSES: Mapping[str, Sequence[set[str]]] = {
    # A table with both "item" and "item_id" may hold titles in the first, or line numbers in the
    # second: they fit equally well, and the reader has to say which.
    "user": [{"user", "userid"}, *_forms("user"), {"uid"}, *_USERS],
    "item": [{"item", "itemid"}, *_forms("item"), {"iid"}, *_ITEMS],
    "rating": [{name} for name in _RATINGS.split()],
    "timestamp": [{name} for name in _TIMES.split()],
}
"""Sets of names for each kind of column; the first set with a name in the header decides."""


def chosen_columns(
    header: Sequence[str], wanted: Mapping[str, str | None], where: object
) -> dict[str, str]:
    """The names of the wanted columns in a header; those that are None are guessed.

    A name that is missing, occurs or is given twice, or cannot be guessed, is a ``ValueError``.

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
                f"{where} has {len(fitting)} columns that look like {kind}s, "
                f"{', '.join(fitting)}: name the right one with {option}"
            )
        if not fitting:
            lacking = f"that looks like {kind}s" if name is None else f"{name!r} for the {kind}s"
            headless = any(re.fullmatch(r"-?\d+(\.\d+)?", value) for value in header)
            raise ValueError(
                f"{where} has no column {lacking}; it has {shown}: name the right one with {option}"
                + (", or add --no-header if this is the first row of the data" * headless)
            )
        [name] = set(fitting)
        if name in columns.values():
            raise ValueError(f"{where}: column {name!r} is used twice ({option})")
        if header.count(name) > 1:
            raise ValueError(f"{where} has {header.count(name)} columns called {name!r}")
        columns[kind] = name
    return columns


def check_order(
    columns: Mapping[str, str], values: Mapping[str, str], options: RankingData, where: object
) -> None:
    """Raise on a table without header if its first ids look swapped, such as i1, u1.

    Columns that were named are not questioned.
    """
    if options.user_column is not None or options.item_column is not None:
        return
    looks = {"user": "", "item": ""}
    for kind in looks:
        word = re.sub(r"[\W\d_].*", "", values.get(columns[kind], "").casefold())
        for other in looks:
            if word == other[0] or any(word in names for names in _GUESSES[other]):
                looks[kind] = other
    if looks == {"user": "item", "item": "user"}:
        raise ValueError(
            f"{where} starts with {values[columns['user']]!r} and {values[columns['item']]!r}, "
            "which look like an item and a user: pass --user-column 2 --item-column 1, or "
            "--user-column 1 --item-column 2 if they are not"
        )


def _guessed(kind: str, header: Sequence[str]) -> list[str]:
    """The columns that look most like the wanted kind."""
    plain = {name: re.sub(r"[\W_]+", "", name.casefold()) for name in header}
    matches = ([name for name in header if plain[name] in names] for names in _GUESSES[kind])
    return next(filter(None, matches), [])


_NULLS = ("null", "none", "nan", "na", "n/a", "#n/a", "<na>", "nil", "undefined", "\\n")
"""Spellings of a missing id, in lower case."""
_FIRST_ROWS = 5
_WANTED = {"rating": "a finite number", "timestamp": "a number or a date"}


def interaction_columns(
    frame: pl.LazyFrame,
    where: str,
    options: RankingData,
    whole_ids: bool = False,
) -> tuple[pl.DataFrame, int]:
    """Check ids and turn ratings and times into numbers.

    Ids are stripped text or whole numbers. Floating-point ids with whole values, as other tools
    write for whole numbers next to missing ones, count as whole numbers.

    Args:
        frame: the columns ``line``, the number of each row in its file; ``user``, ``item`` and
            maybe ``rating`` and ``timestamp``, of any type; and maybe ``surplus``, which is not
            null in rows with too many values.
        where: names the file and the unit of its line numbers, such as "a.csv, line".
        options: how tables are read, which says whether bad rows are left out; else they are a
            ``ValueError``.
        whole_ids: whether ids must be whole numbers.

    Returns:
        The checked columns, with ids as Int64 or Categorical; and the number of rows left out.
    """
    types = dict(frame.collect_schema())
    del types["line"]
    values = [_values(name, dtype, whole_ids, options).alias(name) for name, dtype in types.items()]
    table = frame.select(values).collect(engine="streaming")
    table = table.with_columns(
        _settled(table[name], dtype, options, where) for name, dtype in types.items()
    )
    valid = table.drop("surplus", strict=False)
    if not any(column.null_count() for column in table):
        return valid, 0
    bad = table.select(pl.any_horizontal(pl.all().is_null())).to_series()
    if options.skip_bad_rows:
        return valid.filter(~bad), int(bad.sum())
    first = bad.arg_true()[0]
    name = next(column.name for column in table if column[first] is None)
    rows = table[name].is_null().arg_true()
    lines = frame.select("line").collect(engine="streaming")["line"].gather(rows[:_FIRST_ROWS])
    places = f"{where}{'s' * (len(rows) > 1)} {', '.join(map(str, lines))}"
    places += f" and {len(rows) - _FIRST_ROWS:,} more" * (len(rows) > _FIRST_ROWS)
    value = frame.slice(first, 1).collect()[name][0]
    skip = "" if whole_ids else "; --skip-bad-rows leaves such rows out"
    if name == "surplus":
        wrong = f"there are more values than in the first line{skip}"
    elif value is None or str(value).strip() == "":
        wrong = f"there is no {name}{skip}"
    elif name in ("user", "item") and isinstance(value, str) and not whole_ids:
        wrong = f"{name} {value!r} stands for a missing id{skip}, --allow-null-ids keeps them"
    else:
        kind = "a whole number" if whole_ids else "a whole number or text"
        wrong = f"{name} must be {_WANTED.get(name, kind)}, got {value!r}{skip}"
    raise ValueError(f"{places}: {wrong}")


def _values(name: str, dtype: pl.DataType, whole_ids: bool, options: RankingData) -> pl.Expr:
    """The values of a column, null where one is missing or invalid."""
    column = pl.col(name)
    text = column.str.strip_chars() if dtype == pl.String else column
    if name == "surplus":  # here a value is what makes a row invalid
        return pl.when(column.is_null()).then(statement=True)
    if name == "timestamp":
        if dtype in (pl.Date, pl.Datetime):
            return column.dt.timestamp("ns").cast(pl.Datetime("ns"))
        if dtype == pl.String or dtype.is_integer():  # text is for the whole column to tell
            return text if dtype == pl.String else column.cast(pl.Int64, strict=False)
    if name in ("rating", "timestamp"):
        numbers = text.cast(pl.Float64, strict=False)
        known = dtype.is_numeric() or dtype == pl.String
        return pl.when(numbers.is_finite()).then(numbers) if known else pl.lit(None)
    if whole_ids or (dtype.is_integer() and dtype != pl.UInt64):
        return text.cast(pl.Int64, strict=False)
    if dtype.is_float():
        return column.fill_nan(None)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null):
        return pl.lit(None)
    return _names(column.cast(pl.String), () if options.allow_null_ids else _NULLS)


def _names(text: pl.Expr, nulls: Sequence[str] = ()) -> pl.Expr:
    """Stripped text, numbered; null if it ends in NUL, which NumPy drops from an id."""
    text = text.str.strip_chars()
    valid = (text.str.len_bytes() > 0) & ~text.str.ends_with("\0")
    if nulls:
        valid &= ~text.str.to_lowercase().is_in(nulls)
    return pl.when(valid).then(text).cast(pl.Categorical)


def _settled(column: pl.Series, dtype: pl.DataType, options: RankingData, where: str) -> pl.Series:
    """A column after conversions that need all of it: of times in text, of ids in floats."""
    if column.name == "timestamp" and column.dtype == pl.String:
        return times(column, options.date_format, where.rpartition(",")[0])
    if column.name in ("user", "item") and dtype.is_float():
        whole = column.cast(pl.Int64, strict=False)
        if ((whole == column) | column.is_null()).all():
            return whole
        return column.to_frame().select(_names(pl.first().cast(pl.String))).to_series()
    return column


def common_ids(columns: list[pl.Series]) -> list[pl.Series]:
    """The same ids in columns that are all Int64, or else all Categorical.

    Example:
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
    """A value for each row of a categorical column, given one for each of its categories."""
    places = names.cast(pl.Categorical).to_physical().to_numpy()
    table = np.zeros(int(places.max(initial=0)) + 1, dtype=values.dtype)
    table[places] = values
    return table[column.to_physical().to_numpy()]
