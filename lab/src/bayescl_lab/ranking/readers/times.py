"""Times in text: numbers, ISO dates, and dates with the day or month first.

===============================  =================================================================
``1700000000000000001``          whole numbers stay whole numbers
``1700000000.5``                 other numbers are floats
``2024-05-31``, ``2024/5/31``    year first: always year, month, day
``31.5.2024``, ``05/31/2024``    day or month first: a value above 12 in the column tells which
``... 13:05``, ``...T13:05:01``  with a time of day, with decimals, with AM or PM
``...Z``, ``... +09:00``         with an offset from UTC; default: UTC
===============================  =================================================================
"""

from __future__ import annotations

import polars as pl

_DATE = (
    r"^(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})"  # 1, 2, 3: the parts of the date
    r"(?:[T ] *(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9})\d*)?)?"  # 4-7: time and decimals
    r" *(?:([AaPp])\.?[Mm]\.?)?)?"  # 8: before or after noon
    r" *(?:Z|UTC|GMT|([+-])(\d{2}):?(\d{2}))?$"  # 9-11: offset
)
_ORDERS = {"dmy": ("3", "2", "1"), "mdy": ("3", "1", "2")}
_SECOND = 10**9


def times(text: pl.Series, date_format: str | None, where: object) -> pl.Series:
    """Parse times to Int64, Float64 or Datetime in nanoseconds; null if invalid.

    Args:
        text: Stripped values.
        date_format: Order of day and month, ``dmy`` or ``mdy``, or a pattern such as ``%d %b %Y``.
            Default: detected from the values.
        where: Name of the file in messages.

    Raises:
        ValueError: if the order of day and month is ambiguous.
    """
    if date_format not in (None, *_ORDERS):
        moments: pl.Series = text.str.to_datetime(date_format, time_unit="ns", strict=False)
        in_utc: pl.Series = moments.dt.replace_time_zone(None)
        return in_utc
    whole: pl.Series = text.cast(pl.Int64, strict=False)
    if whole.null_count() == text.null_count():
        return whole
    numbers: pl.Series = text.cast(pl.Float64, strict=False)
    numbers = numbers.set(~numbers.is_finite(), None)
    if numbers.null_count() == text.null_count():
        return numbers
    moments = _dates(text, date_format, where)
    return moments if moments.null_count() <= numbers.null_count() else numbers


def _dates(text: pl.Series, order: str | None, where: object) -> pl.Series:
    """Parse dates; null if invalid."""
    table = text.to_frame("").lazy().select(pl.first().str.extract_groups(_DATE)).unnest("")
    number = {name: pl.col(name).cast(pl.Int64).fill_null(0) for name in map(str, range(1, 12))}
    year_first = pl.col("1").str.len_chars() == 4
    year_last = (pl.col("3").str.len_chars() == 4) & ~year_first
    if order is None:
        any_last = year_last.any()
        above = [(year_last & (number[name] > 12)).any().alias(name) for name in ("1", "2")]
        is_mixed, day_first, month_first = (
            table.select(any_last.alias("0"), *above).collect(engine="streaming").row(0)
        )
        if is_mixed and day_first == month_first:
            example = text.filter(text.str.contains(r"^\d{1,2}[-/.]\d{1,2}[-/.]\d{4}"))[0]
            both = "in both orders" if day_first else "which may be day or month first"
            raise ValueError(
                f"{where} has times such as {example!r}, {both}: name the order with "
                "--date-format dmy or --date-format mdy"
            )
        order = "dmy" if day_first else "mdy"
    parts = [
        pl.when(year_first).then(pl.col(iso)).otherwise(pl.when(year_last).then(pl.col(own)))
        for iso, own in zip("123", _ORDERS[order], strict=True)
    ]
    noon = pl.col("8").str.to_lowercase()
    hour = pl.when(noon.is_null()).then(number["4"]).otherwise(number["4"] % 12)
    hour = hour + pl.when(noon == "p").then(12).otherwise(0)
    offset = (60 * number["10"] + number["11"]) * pl.when(pl.col("9") == "-").then(-1).otherwise(1)
    seconds = 3600 * hour + 60 * (number["5"] - offset) + number["6"]
    decimals = pl.col("7").str.pad_end(9, "0").cast(pl.Int64).fill_null(0)
    day = pl.concat_str(parts, separator="-").str.to_date("%Y-%m-%d", strict=False)
    valid = (hour < 24) & (number["5"] < 60) & (number["6"] < 61)
    moment = day.cast(pl.Datetime("ns"), strict=False) + pl.duration(
        nanoseconds=seconds * _SECOND + decimals
    )
    moments = table.select(pl.when(valid).then(moment).alias(text.name))
    return moments.collect(engine="streaming").to_series()
