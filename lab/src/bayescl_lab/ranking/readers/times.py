"""Times: numbers, moments of Parquet, and text with ISO dates or the day or month first.

===============================  =================================================================
``1700000000000000001``          whole numbers stay whole numbers
``1700000000.5``                 other numbers are floats
``2024-05-31``, ``2024/5/31``    year first: always year, month, day
``31.5.2024``, ``05/31/2024``    day or month first: a date with a day above 12 tells which
``31052024``                     only with ``date_format``
``... 13:05``, ``...T13:05:01``  with a time of day, with decimals, with AM or PM
``...Z``, ``... +09:00``         with an offset from UTC; default: UTC
===============================  =================================================================

Regular expressions bring dates to one form, which Polars parses.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from bayescl_lab._tables import plain_values

_ORDERS = {"dmy": "%d-%m-%Y", "mdy": "%m-%d-%Y"}
_USUAL = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")
_ONE_FORM = (  # 2024-5-1 13:05:00.25+0900
    (r"^([0-9]{1,4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,4})", "${1}-${2}-${3}"),
    (r"^([0-9-]+)$", "${1} 0:00"),
    (r"[T ] *([0-9]{1,2}:[0-9]{2})", " ${1}"),
    (r"( [0-9]+:[0-9]+)($|[^0-9:])", "${1}:00${2}"),
    (r"(:[0-9]{2})[.,]([0-9]{1,9})[0-9]*", "${1}.${2}"),
    (r"(?i) *([ap])\.?m\.?", " ${1}m"),
    (r" *(?:Z|UTC|GMT|([+-][0-9]{2}):?([0-9]{2}))?$", "${1}${2}"),
    (r"(:[0-9.]+(?: [AaPp]m)?)$", "${1}+0000"),
)
_UNITS = {
    "seconds": (1e8, 1e11),
    "milliseconds": (1e11, 1e14),
    "microseconds": (1e14, 1e17),
    "nanoseconds": (1e17, float("inf")),
}
"""Epochs from 1973 to 5138 in each unit."""


def times(column: pl.Series, date_format: str | None, where: object) -> pl.Series:
    """Convert times to Int64, Float64 or Datetime in nanoseconds and UTC; null if invalid.

    Args:
        column: Numbers, moments or text.
        date_format: Order of day and month, ``dmy`` or ``mdy``, or a pattern such as ``%d %b %Y``.
            Default: detected from the values.
        where: Name of the file in messages.

    Raises:
        ValueError: if the order of day and month is ambiguous, numbers have different units, or the
            type of the column cannot have times.
    """
    if column.dtype in (pl.Date, pl.Datetime):
        if column.dtype != pl.Date:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(pl.Datetime("ns"), strict=False)
    values = plain_values(column)
    if date_format is not None:
        pattern = _ORDERS.get(date_format, date_format)
        text = _digits_padded(values.cast(pl.String), pattern)
        return _dates(text, date_format, where) if date_format in _ORDERS else _read(text, pattern)
    if values.dtype != pl.String:
        return _checked(values, where)
    whole = values.cast(pl.Int64, strict=False)
    if whole.null_count() == values.null_count():
        return _checked(whole, where)
    numbers = values.cast(pl.Float64, strict=False)
    numbers = numbers.set(~numbers.is_finite(), None)
    if numbers.null_count() == values.null_count():
        return _checked(numbers, where)
    moments = _dates(values, None, where)
    return moments if moments.null_count() <= numbers.null_count() else _checked(numbers, where)


def _checked(numbers: pl.Series, where: object) -> pl.Series:
    """Return numbers, with null for 0 and less among epochs.

    Raises ``ValueError`` on several units, and on dates without separators that do not sort.
    """
    low: Any = numbers.min()
    high: Any = numbers.max()
    if numbers.dtype == pl.Int64 and low and 1_01_1900 <= low <= high <= 31_12_2100:
        text = numbers.cast(pl.String).str.zfill(8)
        if any(not _read(text, form).has_nulls() for form in ("%d%m%Y", "%m%d%Y")):
            raise ValueError(
                f"{where} has times such as {text[0]}, which look like dates: name the order with "
                "--date-format dmy or --date-format mdy"
            )
    if low is None or any(begin <= low <= high < end for begin, end in _UNITS.values()):
        return numbers
    units = {unit: numbers.filter(numbers.is_between(*ends)) for unit, ends in _UNITS.items()}
    found = [f"{values[0]} ({unit})" for unit, values in units.items() if len(values)]
    if len(found) > 1:
        raise ValueError(
            f"{where} has times in different units, such as {' and '.join(found[:2])}: use one unit"
        )
    positive = numbers > 0
    return (
        numbers.set(~positive, None) if found and (~positive | (numbers >= 1e8)).all() else numbers
    )


def _digits_padded(text: pl.Series, pattern: str) -> pl.Series:
    """Return text with the leading zeros that whole numbers have lost; 1-5-2024 for 1052024."""
    if pattern in _ORDERS.values():
        return text.str.replace(r"^([0-9]{1,2})([0-9]{2})([0-9]{4})$", "${1}-${2}-${3}")
    width = len(datetime(2000, 12, 31).strftime(pattern))
    padded = text.str.zfill(width)
    return padded.zip_with(text.str.contains("^[0-9]+$"), text)


def _dates(text: pl.Series, order: str | None, where: object) -> pl.Series:
    """Parse dates; null if invalid."""
    for pattern in _USUAL:  # of databases and programs: no need for another form
        if not _read(text.head(1), pattern).has_nulls():
            moments = _read(text, pattern)
            if moments.null_count() == text.null_count():
                return moments
    one_form = text
    for pattern, form in _ONE_FORM:
        one_form = one_form.str.replace(pattern, form)
    moments = _with_clock(one_form, "%Y-%m-%d")
    if moments.null_count() == text.null_count():
        return moments
    by_order = {name: _with_clock(one_form, date) for name, date in _ORDERS.items()}
    if order is None:
        is_date = {name: values.is_not_null() for name, values in by_order.items()}
        day_first = (is_date["dmy"] & ~is_date["mdy"]).any()
        month_first = (is_date["mdy"] & ~is_date["dmy"]).any()
        either = is_date["dmy"] | is_date["mdy"]
        if either.any() and day_first == month_first:
            both = "in both orders" if day_first else "which may be day or month first"
            raise ValueError(
                f"{where} has times such as {text.filter(either)[0]!r}, {both}: name the order "
                "with --date-format dmy or --date-format mdy"
            )
        order = "dmy" if day_first else "mdy"
    return moments.zip_with(moments.is_not_null(), by_order[order])


def _with_clock(text: pl.Series, date: str) -> pl.Series:
    """Parse dates in one form, with 24 or 12 hours."""
    moments = _read(text, f"{date} %H:%M:%S%.f%z")
    if moments.null_count() > text.null_count():
        of_half = _read(text, f"{date} %I:%M:%S%.f %p%z")
        moments = moments.zip_with(moments.is_not_null(), of_half)
    return moments


def _read(text: pl.Series, pattern: str) -> pl.Series:
    """Parse text to UTC in nanoseconds; null if invalid or before 1900."""
    moments = text.str.to_datetime(pattern, time_unit="ns", strict=False)
    moments = moments.dt.replace_time_zone(None)
    return moments.set(moments.dt.year() < 1900, None)
