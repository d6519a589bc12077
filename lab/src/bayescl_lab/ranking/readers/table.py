"""Reading of tables: ids, ratings and times are checked and converted.

``user`` and ``item`` may be whole numbers or text; surrounding blanks are ignored. Ids are read as
numbers only if all are whole numbers in canonical form, such as ``7`` or ``7.0``: ``007`` and ``7``
are two users. For the formats of ``timestamp``, see ``readers/times.py``. A row with a missing
value in a used column, or with more values than the first line, is an error or, with
``skip_bad_rows``, skipped and counted. Other columns are ignored. Columns without given names are
guessed: names with "user" or "item" are preferred to synonyms, ``user_id`` to ``customer_id``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from bayescl_lab._arrays import UNKNOWN_WORDS
from bayescl_lab._tables import (
    Table,
    each,
    find_columns,
    open_table,
    plain_values,
    whole_numbers,
)
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.times import times

_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""Suffixes of words in column names, in order of preference."""


def _forms(words: str) -> list[set[str]]:
    """Return the words with each suffix, ids first."""
    return [{word + key for word in words.split()} for key in _KEYS]


_USERS = _forms(
    "customer client member visitor viewer reader listener player buyer shopper reviewer account "
    "profile person consumer subscriber session"
)
_ITEMS = _forms(
    "movie film product book article song track artist business restaurant venue place location "
    "poi video game app recipe anime beer course job offer listing hotel sku asin isbn goods news"
)
USUAL_NAMES: Mapping[str, Sequence[set[str]]] = {
    # A table with both "item" and "item_id" may hold titles in the first, or line numbers in the
    # second. They match equally well, so the user has to choose.
    "user": [{"user", "userid"}, *_forms("user"), {"uid"}, *_USERS],
    "item": [{"item", "itemid"}, *_forms("item"), {"iid"}, *_ITEMS],
    "rating": each("rating ratings stars score overall rate userrating"),
    "timestamp": each(
        "timestamp time datetime date ts unixtime unixreviewtime reviewtime eventtime createdat "
        "ratedat"
    ),
}
"""Names of each kind of column, for :func:`~bayescl_lab._tables.find_columns`."""

_ROUNDED = r"^-?[0-9]\.[0-9]+[eE]\+[0-9]+$"  # 1.23457E+12, for a long number in a spreadsheet
_LONGEST = 1000  # characters of an id; NumPy stores all ids at the width of the longest
_FIRST_ROWS = 5
_WANTED = {
    "rating": "a finite number",
    "timestamp": "a number, a date such as 2024-05-31, or a date in the form of --date-format",
}


@dataclass(frozen=True)
class RawInteractions:
    """Result of a reader: interactions with the ids in the file.

    ``train`` and ``test`` have columns ``user`` and ``item`` (whole numbers or text, never empty)
    and, if requested, ``rating`` (finite numbers) and ``timestamp`` (numbers or dates). The
    report maps a description of skipped data to its count.
    """

    train: pl.DataFrame
    test: pl.DataFrame | None = None
    name: str = "interactions"
    report: Mapping[str, int] = field(default_factory=dict)


def read_tables(
    train: Path, test: Path | None, options: RankingData, *, name: str
) -> RawInteractions:
    """Read a table, and optionally a second table as its test split.

    Raises:
        ValueError: if a column is missing or a value is invalid; the message names the file and the
            line.
    """
    tables = [read_interactions_of(path, options) for path in (train, test) if path is not None]
    (first, *second), counts = zip(*tables, strict=True)
    bad = sum(counts)
    report = {"rows with missing or unparsable values left out": bad} if bad else {}
    return RawInteractions(first, second[0] if second else None, name, report)


def opened_table(path: Path, options: RankingData) -> tuple[Table, dict[str, str]]:
    """Open a table; return it with the name of each wanted column.

    Raises:
        ValueError: if a column is missing, or cannot be guessed.
    """
    table = open_table(
        path,
        separator=options.separator,
        encoding=options.encoding,
        has_header=not options.no_header,
        quote=options.quote,
    )
    wanted = options.columns
    is_headless = any(re.fullmatch(r"-?\d+(\.\d+)?", name) for name in table.header)
    columns = find_columns(
        path,
        table.header,
        {kind: USUAL_NAMES[kind] for kind in wanted},
        wanted,
        required=wanted,
        advice=", or add --no-header if this is the first row of the data" * is_headless,
    )
    return table, columns


def read_interactions_of(path: Path, options: RankingData) -> tuple[pl.DataFrame, int]:
    """Read the wanted columns of a table; return them and the number of rows left out.

    Ids are stripped text or integers.
    """
    table, columns = opened_table(path, options)
    rows = table.read(columns)
    # Each column is freed when it has been converted.
    converted = [_converted(rows.drop_in_place(kind), options, path) for kind in columns]
    checked = pl.DataFrame(converted)
    missing = checked.select(pl.any_horizontal(pl.all().is_null())).to_series()
    is_bad = missing | rows["surplus"].is_not_null()
    left_out = int(is_bad.sum())
    if left_out and not options.skip_bad_rows:
        _refuse(table, table.read(columns), checked, int(is_bad.arg_true()[0]))
    if left_out == len(rows):
        why = f": all {left_out} rows lack a value or have an unparsable one" * bool(left_out)
        raise ValueError(f"{path} has no interactions{why}")
    return checked.filter(~is_bad), left_out


def _refuse(table: Table, rows: pl.DataFrame, checked: pl.DataFrame, first: int) -> None:
    """Raise on the first bad row, and mention other rows with the same error."""
    name = next((it.name for it in checked if it[first] is None), "surplus")
    is_bad = rows[name].is_not_null() if name == "surplus" else checked[name].is_null()
    lines, value = rows["line"].filter(is_bad).to_list(), rows[name][first]
    where = f"{table.path}, {table.unit}{'s' * (len(lines) > 1)} "
    where += ", ".join(map(str, lines[:_FIRST_ROWS]))
    where += f" and {len(lines) - _FIRST_ROWS:,} more" * (len(lines) > _FIRST_ROWS)
    skip = "" if is_bad.all() else "; --skip-bad-rows leaves such rows out"
    if name == "surplus":
        wrong = f"there are more values than in the first line{skip}"
    elif value is None or str(value).strip() == "":
        wrong = f"there is no {name}{skip}"
    elif name in ("user", "item") and isinstance(value, str):
        wrong = f"{name} {value!r} stands for a missing id{skip}, --allow-null-ids keeps such ids"
    else:
        kind = _WANTED.get(name, "a whole number or text")
        point = " (write a decimal point)" if re.fullmatch(r"-?\d+,\d+", str(value)) else ""
        wrong = f"{name} must be {kind}, got {value!r}{point}{skip}"
    raise ValueError(f"{where}: {wrong}")


def _converted(column: pl.Series, options: RankingData, path: Path) -> pl.Series:
    """Convert the values of a column; null if missing or invalid."""
    try:
        if column.name == "rating":
            return _ratings(column)
        if column.name == "timestamp":
            return times(column, options.date_format)
        return _ids(column, allows_missing=options.allow_null_ids)
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def _ids(column: pl.Series, *, allows_missing: bool) -> pl.Series:
    """Convert ids to integers or stripped text, as categories to save memory."""
    text = plain_values(column)
    if text.dtype == pl.Int64:
        return text if allows_missing else text.set(text == -1, None)
    text = text.cast(pl.String)
    distinct = text.unique().drop_nulls()
    if (rounded := distinct.filter(distinct.str.contains(_ROUNDED))).len():
        raise ValueError(
            f"{column.name} {rounded[0]!r} is a number that another program has rounded: "
            "export the ids as text"
        )
    if (long := distinct.filter(distinct.str.len_chars() > _LONGEST)).len():
        raise ValueError(
            f"{column.name} {long[0][:20]!r}... has {len(long[0]):,} characters, more than "
            f"{_LONGEST:,}: choose a column of ids"
        )
    if (cut := distinct.filter(distinct.str.ends_with("\0"))).len():
        raise ValueError(
            f"{column.name} {cut[0]!r} ends with a NUL character, which NumPy drops: remove it"
        )
    invalid = distinct == ""
    if not allows_missing:
        # Dashes may be a line below the header.
        invalid |= distinct.is_in(UNKNOWN_WORDS) | distinct.str.contains(r"^[-.]+$")
    if invalid.any():
        text = text.set(text.is_in(distinct.filter(invalid).implode()), None)
    return text.cast(pl.Categorical)


def _ratings(column: pl.Series) -> pl.Series:
    """Convert values to finite numbers; null if invalid."""
    if column.dtype in (pl.Float32, pl.Float16):  # 4.1 stays 4.1
        column = column.cast(pl.String)
    if column.dtype == pl.Boolean or column.dtype.is_temporal():
        raise ValueError(f"rating has the type {column.dtype}: use numbers")
    numbers = plain_values(column).cast(pl.Float64, strict=False)
    return numbers.set(~numbers.is_finite(), None)


def common_ids(columns: Sequence[pl.Series]) -> list[pl.Series]:
    """Convert columns of ids to integers if all are integers, else to text.

    Example:
        >>> [ids.to_list() for ids in common_ids([pl.Series(["007", "12"]), pl.Series([3])])]
        [['007', '12'], ['3']]
    """
    if all(column.dtype == pl.Int64 for column in columns):
        return list(columns)
    numbers = [whole_numbers(column) for column in columns]
    whole = [column for column in numbers if column is not None]
    if len(whole) == len(columns):
        return whole
    return [column.cast(pl.String).cast(pl.Categorical) for column in columns]
