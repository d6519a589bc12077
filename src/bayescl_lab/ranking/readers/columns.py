"""Checks and conversion of the columns of interactions.

Tables are read in pieces, and ids never become Python objects: text ids are numbered while they are
read (Polars' categoricals), so a row costs four bytes whatever the length of its ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
"""Text in the canonical form of a whole number: "7", but neither "07" nor "7.0"."""


def interaction_columns(
    frame: pl.DataFrame | pl.LazyFrame, place: Callable[[int], str], *, whole_ids: bool = False
) -> pl.DataFrame:
    """Check ids and turn ratings and timestamps into numbers.

    Ids are stripped text or whole numbers. Floating-point ids with whole values, as other tools
    write for whole numbers next to missing ones, count as whole numbers.

    Args:
        frame: the number of each row in its file, then ``user``, ``item`` and maybe ``rating``
            and ``timestamp``, of any type.
        place: returns the location of a row for error messages, given its number; it may raise its
            own error if the whole row is damaged.
        whole_ids: whether ids must be whole numbers.

    Returns:
        The columns without the row numbers; ids are Int64 or Categorical.

    Raises:
        ValueError: for the first row with a missing or invalid id, rating or timestamp.
    """
    lazy = frame.lazy()
    number, *types = lazy.collect_schema().items()
    ids = _whole_ids if whole_ids else _ids
    converters = {"rating": _numbers, "timestamp": _times}
    wanted = [converters.get(name, ids)(name, dtype).alias(name) for name, dtype in types]
    read = lazy.with_columns(wanted).select([name for name, _ in types]).collect(engine="streaming")
    columns = [_finished(read[name], dtype) for name, dtype in types]
    places = [column.is_null().arg_true()[0] for column in columns if column.null_count()]
    if places:
        row = lazy.slice(min(places), 1).collect()
        where = place(int(row[number[0]][0]))
        name = next(column.name for column in columns if column[min(places)] is None)
        value = row[name][0]
        if value is None or str(value).strip() == "":
            raise ValueError(f"{where}: there is no {name}")
        kind = {"rating": "a finite number", "timestamp": "a number or a date"}.get(name)
        kind = kind or ("a whole number" if whole_ids else "a whole number or text")
        raise ValueError(f"{where}: {name} must be {kind}, got {value!r}")
    return pl.DataFrame(columns)


def _whole_ids(name: str, dtype: pl.DataType) -> pl.Expr:
    """Whole numbers; null where a value is not one."""
    del dtype
    return pl.col(name).str.strip_chars().cast(pl.Int64, strict=False)


def _ids(name: str, dtype: pl.DataType) -> pl.Expr:
    """Whole numbers or text; null where a value is not an id."""
    if dtype.is_integer() and dtype != pl.UInt64:
        return pl.col(name).cast(pl.Int64)
    if dtype.is_float():
        return pl.col(name).fill_nan(None)
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null):
        return pl.lit(None)
    return _named(pl.col(name).cast(pl.String))


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


def _named(text: pl.Expr) -> pl.Expr:
    """Stripped text, numbered; null if it is empty."""
    text = text.str.strip_chars()
    return pl.when(text.str.len_bytes() > 0).then(text).cast(pl.Categorical)


def _numbers(name: str, dtype: pl.DataType) -> pl.Expr:
    """Finite numbers; null where a value is not one."""
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


def _moments(text: pl.Series) -> pl.Series:
    """Numbers or dates in text, as seconds since 1970; null where a value is neither."""
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
    if not all(name.str.contains(_WHOLE).all() for name in names):
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
