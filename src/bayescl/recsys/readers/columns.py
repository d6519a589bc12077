"""The columns of interactions: ids that are there, numbers that are numbers."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

_WHOLE = r"^(0|-?[1-9]\d{0,17})$"
"""Text that is a whole number in the one way of writing it: "7", but neither "07" nor "7.0"."""


def interaction_columns(
    frame: pl.DataFrame, place: Callable[[int], str], *, whole_ids: bool = False
) -> pl.DataFrame:
    """Check ids and turn ratings and timestamps into numbers.

    Ids are text without the blanks around it, or whole numbers; floating-point ids that are
    whole (what other tools make of whole numbers next to a gap) count as whole numbers.

    Args:
        frame: the number of each row in its file, then ``user``, ``item`` and maybe ``rating``
            and ``timestamp``, of any type.
        place: says for such a number where the row stands, to begin a message with; it may raise
            an error of its own if it finds the whole row damaged.
        whole_ids: whether ids must be whole numbers.

    Returns:
        The columns without the numbers.

    Raises:
        ValueError: for the first row that lacks an id, rating or timestamp, or has something
            that is none.
    """
    converters = {"rating": _numbers, "timestamp": _times}
    ids = _whole_ids if whole_ids else _ids
    columns = {name: converters.get(name, ids)(frame[name]) for name in frame.columns[1:]}
    missing = pl.DataFrame([column.is_null() for column in columns.values()])
    damaged = missing.select(pl.any_horizontal(pl.all())).to_series()
    if damaged.any():
        row = damaged.arg_true()[0]
        where = place(int(frame.to_series(0)[row]))
        name = next(name for name, column in columns.items() if column[row] is None)
        value = frame[name][row]
        if value is None or str(value).strip() == "":
            raise ValueError(f"{where}: there is no {name}")
        kind = {"rating": "a finite number", "timestamp": "a number or a date"}.get(name)
        kind = kind or ("a whole number" if whole_ids else "a whole number or text")
        raise ValueError(f"{where}: {name} must be {kind}, got {value!r}")
    return pl.DataFrame(columns)


def _whole_ids(column: pl.Series) -> pl.Series:
    """Whole numbers; null where a value is none."""
    return column.str.strip_chars().cast(pl.Int64, strict=False)


def _ids(column: pl.Series) -> pl.Series:
    """Whole numbers or text; null where a value is not an id."""
    dtype = column.dtype
    if dtype.is_integer() and dtype != pl.UInt64:
        return column.cast(pl.Int64)
    if dtype.is_float():
        column = column.fill_nan(None)
        whole = column.cast(pl.Int64, strict=False)
        if ((whole == column) | column.is_null()).all():
            return whole
    if dtype.is_nested() or dtype in (pl.Binary, pl.Object, pl.Null):
        return pl.Series(column.name, [None] * len(column), dtype=pl.String)
    text = column.cast(pl.String).str.strip_chars()
    return text.to_frame().select(pl.when(text.str.len_bytes() > 0).then(text)).to_series()


def _numbers(column: pl.Series) -> pl.Series:
    """Finite numbers; null where a value is none."""
    if column.dtype == pl.String:
        column = column.str.strip_chars()
    elif not column.dtype.is_numeric():
        return pl.Series(column.name, [None] * len(column), dtype=pl.Float64)
    numbers = column.cast(pl.Float64, strict=False)
    return numbers.to_frame().select(pl.when(numbers.is_finite()).then(numbers)).to_series()


def _times(column: pl.Series) -> pl.Series:
    """Numbers as they are, dates as seconds since 1970; null where a value is neither."""
    if column.dtype == pl.Date:
        column = column.cast(pl.Datetime("us"))
    if column.dtype == pl.Datetime:
        return column.dt.epoch("us").cast(pl.Float64) / 1e6
    numbers = _numbers(column)
    if column.dtype == pl.String and numbers.null_count():
        try:
            moments = column.str.strip_chars().str.to_datetime(time_unit="us", strict=False)
        except pl.exceptions.ComputeError:  # nothing in it looks like a date
            return numbers
        if moments.null_count() < numbers.null_count():
            return moments.dt.epoch("us").cast(pl.Float64) / 1e6
    return numbers


def common_ids(columns: list[pl.Series]) -> list[pl.Series]:
    """The same ids in columns of one type: whole numbers if all are, else text.

    Example:
        >>> [ids.to_list() for ids in common_ids([pl.Series(["7", "12"]), pl.Series([3])])]
        [[7, 12], [3]]
        >>> [ids.to_list() for ids in common_ids([pl.Series(["007", "12"]), pl.Series([3])])]
        [['007', '12'], ['3']]
    """
    if all(column.dtype == pl.Int64 for column in columns):
        return columns
    texts = [column.cast(pl.String) for column in columns]
    if all(text.str.contains(_WHOLE).all() for text in texts):
        return [text.cast(pl.Int64) for text in texts]
    return texts
