"""Times: numbers, dates of Parquet, and text.

==========================  =====================================================================
``1700000000000000001``     whole numbers stay whole numbers
``1700000000.5``            other numbers are floats
``2024-05-31``              also with other separators, and one digit for a month or a day
``2024-05-31 13:05``        also with ``T``, with seconds and with decimals of seconds
``...Z``, ``... +09:00``    with an offset from UTC; default: UTC
other dates                 only with their pattern as ``date_format``, such as ``%d.%m.%Y``
==========================  =====================================================================
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import polars as pl

from bayescl_lab._tables import plain_values

_USUAL = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")
_ONE_FORM = (  # 2024-5-1 13:05:00.25+0900
    (r"^([0-9]{4})[-/.]([0-9]{1,2})[-/.]([0-9]{1,2})", "${1}-${2}-${3}"),
    (r"^([0-9-]+)$", "${1} 0:00"),
    (r"[T ] *([0-9]{1,2}:[0-9]{2})", " ${1}"),
    (r"( [0-9]+:[0-9]+)($|[^0-9:])", "${1}:00${2}"),
    (r"(:[0-9]{2})[.,]([0-9]{1,9})[0-9]*", "${1}.${2}"),
    (r" *(?:Z|UTC|GMT|([+-][0-9]{2}):?([0-9]{2}))?$", "${1}${2}"),
    (r"(:[0-9.]+)$", "${1}+0000"),
)
_UNITS = {
    "seconds": (1e8, 1e11),
    "milliseconds": (1e11, 1e14),
    "microseconds": (1e14, 1e17),
    "nanoseconds": (1e17, float("inf")),
}
"""Unix times from 1973 to 5138 in each unit."""


def times(column: pl.Series, date_format: str | None) -> pl.Series:
    """Convert times to Int64, Float64 or Datetime in nanoseconds and UTC; null if invalid.

    Args:
        column: Numbers, dates or text.
        date_format: Pattern of dates, such as ``%d.%m.%Y``. Default: numbers, or year, month and
            day.

    Raises:
        ValueError: if numbers have different units or look like dates, or the type of the column
            cannot represent times.
    """
    if column.dtype in (pl.Date, pl.Datetime):
        if column.dtype != pl.Date:
            column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return column.cast(pl.Datetime("ns"), strict=False)
    values = plain_values(column)
    if date_format is not None:
        text = values.cast(pl.String)
        padded = text.str.zfill(len(datetime(2000, 12, 31).strftime(date_format)))
        # Whole numbers have lost leading zeros.
        return _dates(padded.zip_with(text.str.contains("^[0-9]+$"), text), date_format)
    for dtype in (pl.Int64, pl.Float64):
        numbers = values.cast(dtype, strict=False)
        if numbers.dtype == pl.Float64:
            numbers = numbers.set(~numbers.is_finite(), None)
        if numbers.null_count() == values.null_count():
            return _checked(numbers)
    moments = _iso_dates(values.cast(pl.String))
    return moments if moments.null_count() <= numbers.null_count() else _checked(numbers)


def _checked(numbers: pl.Series) -> pl.Series:
    """Return numbers; in Unix times, 0 and less become null.

    Raises ``ValueError`` on several units, and dates without separators that do not sort by time.
    """
    low: Any = numbers.min()
    high: Any = numbers.max()
    if numbers.dtype == pl.Int64 and low and 1_01_1900 <= low <= high <= 31_12_2100:
        text = numbers.cast(pl.String).str.zfill(8)
        if any(not _dates(text, form).has_nulls() for form in ("%d%m%Y", "%m%d%Y")):
            raise ValueError(
                f"there are times such as {text[0]}, which look like dates: name their pattern, "
                "such as --date-format %d%m%Y or --date-format %m%d%Y"
            )
    if low is None or any(begin <= low <= high < end for begin, end in _UNITS.values()):
        return numbers
    units = {unit: numbers.filter(numbers.is_between(*ends)) for unit, ends in _UNITS.items()}
    found = [f"{values[0]} ({unit})" for unit, values in units.items() if len(values)]
    if len(found) > 1:
        raise ValueError(
            f"there are times in different units, such as {' and '.join(found[:2])}: use one unit"
        )
    positive = numbers > 0
    is_epoch = found and (~positive | (numbers >= 1e8)).all()
    return numbers.set(~positive, None) if is_epoch else numbers


def _iso_dates(text: pl.Series) -> pl.Series:
    """Parse dates with the year first; null if invalid."""
    for pattern in _USUAL:  # of databases and programs: no need for another form
        moments = _dates(text, pattern)
        if moments.null_count() == text.null_count():
            return moments
    for pattern, form in _ONE_FORM:
        text = text.str.replace(pattern, form)
    return _dates(text, "%Y-%m-%d %H:%M:%S%.f%z")


def _dates(text: pl.Series, pattern: str) -> pl.Series:
    """Parse text to UTC in nanoseconds; null if invalid or before 1900."""
    moments = text.str.to_datetime(pattern, time_unit="ns", strict=False)
    moments = moments.dt.replace_time_zone(None)
    return moments.set(moments.dt.year() < 1900, None)
