"""Tables with named columns: CSV, TSV, any separated text, JSON Lines, and Parquet.

In text, the first line names the columns, values may be quoted with double quotes (RFC 4180), and
blank lines are skipped. The default separator is whichever of tab, comma, semicolon and bar is most
frequent in the first line, quoted names aside. JSON Lines have an object in each line; its keys
are the columns. A table may be split over several files that each name the columns.

``user`` and ``item`` may be whole numbers or text; surrounding blanks are ignored. ``007`` and
``7`` are two users: ids are read as numbers only if all are in the canonical form of a number.
``readers/times.py`` says what a ``timestamp`` is. A row that lacks a value in a used column is an
error, or left out and counted. Other columns are ignored, but a line with more values than the
first is an error, too. If columns are not named, they are guessed; see
:mod:`~bayescl_lab.ranking.readers.columns`.

Polars reads text in pieces and keeps the used columns. Lines are counted as Polars counts rows: a
quoted value with line breaks is one line.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.archives import INTER, JSONL, PARQUET, table_suffix, unpacked
from bayescl_lab.ranking.readers.columns import (
    RawInteractions,
    check_order,
    chosen_columns,
    common_ids,
    interaction_columns,
)

_SEPARATORS = ("\t", ",", ";", "|")
_SPELLINGS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_HEADER = 1 << 20  # bytes of a text
_KEYS_FROM = 100  # lines of JSON


def read_tables(
    train: Sequence[Path], test: Path | None, options: RankingData, *, name: str
) -> RawInteractions:
    """Read the files of a table, and optionally a second one as its test part.

    Raises:
        ValueError: if a column is missing or a value is invalid; the message names the file and the
            line.
    """
    tables = [_read_table(path, options) for path in (*train, *([test] if test else []))]
    parts = [table for table, _ in tables]
    given = parts.pop() if test else None
    if len(parts) > 1:
        for kind in ("user", "item"):
            ids = common_ids([part[kind] for part in parts])
            parts = [part.with_columns(column) for part, column in zip(parts, ids, strict=True)]
    bad = sum(left_out for _, left_out in tables)
    report = {"rows with missing or unparsable values left out": bad} if bad else {}
    kinds = {part.schema.get("timestamp") == pl.Datetime("ns") for part in parts}
    if len(kinds) > 1:
        raise ValueError(f"{name}: times are dates in one file and numbers in another")
    return RawInteractions(pl.concat(parts, how="vertical_relaxed"), given, None, name, report)


def first_rows(path: Path, options: RankingData) -> tuple[list[str], list[str]]:
    """The names of a table's columns, and the values of its first row if it is separated text."""
    first = None if table_suffix(path) in PARQUET else _HEADER
    with unpacked(path, encoding=options.encoding, first=first) as plain, _advice(plain):
        return _header(plain, options)


def _read_table(path: Path, options: RankingData) -> tuple[pl.DataFrame, int]:
    """The wanted columns of a table, and the number of rows left out."""
    with unpacked(path, encoding=options.encoding) as plain, _advice(plain):
        header, values = _header(plain, options)
        columns = chosen_columns(header, options.columns, plain)
        check_order(columns, dict(zip(header, values, strict=False)), options, plain)
        if plain.suffix.lower() in (*PARQUET, *JSONL):
            if plain.suffix.lower() in PARQUET:
                rows = pl.scan_parquet(plain, glob=False, hive_partitioning=False)
            else:  # values are text as in other tables, so ids may be numbers and words
                rows = pl.scan_ndjson(plain, schema=dict.fromkeys(columns.values(), pl.String))
            named = (pl.col(name).alias(kind) for kind, name in columns.items())
            table, left_out = interaction_columns(
                rows.select(named).with_row_index("line", offset=1), f"{plain}, row", options
            )
        else:
            places = {kind: header.index(name) for kind, name in columns.items()}
            separator, quotes = _separator(plain, options), plain.suffix != INTER
            table, left_out = read_text(plain, places, options, separator=separator, quotes=quotes)
        if table.height == 0:
            why = f": all {left_out} rows lack a value or have an unparsable one" * bool(left_out)
            raise ValueError(f"{plain} has no interactions{why}")
        return table, left_out


@contextmanager
def _advice(plain: Path) -> Iterator[None]:
    """Errors of Polars as a ``ValueError`` without the hints that are meant for its callers."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        text = str(error).partition("\n")[0]
        if re.search("utf-?8", text, re.IGNORECASE):
            text = _not_utf8(plain)
        elif quoted := re.search("could not parse `([^`]{1,60})", text):
            text = f"broken quotes near {quoted[1]!r}"
        elif plain.suffix.lower() in JSONL:
            text = "a line is not a JSON object" if plain.stat().st_size else "it is empty"
        raise ValueError(f"cannot read {plain}: {text}") from None


def _not_utf8(path: Path) -> str:
    """Return advice on a file that is not UTF-8, with the number of its first invalid line."""
    with path.open("rb") as file:
        bad = (b"\0" in line or line.decode(errors="ignore").encode() != line for line in file)
        number = next((number for number, is_bad in enumerate(bad, 1) if is_bad), 1)
    return f"line {number} is not UTF-8: name the encoding, such as latin-1, with --encoding"


def _header(plain: Path, options: RankingData) -> tuple[list[str], list[str]]:
    """The names of the columns of a plain table, and the first values if it is separated text."""
    if plain.suffix.lower() in PARQUET:
        return list(pl.read_parquet_schema(plain)), []
    if plain.suffix.lower() in JSONL:
        keys: dict[str, None] = {}
        for line in _beginning(plain).split("\n")[:_KEYS_FROM]:
            with suppress(ValueError, RecursionError, TypeError):  # Polars refuses damage
                keys |= dict.fromkeys({**json.loads(line)})
        if not keys:
            raise pl.exceptions.ComputeError("no line can be read")
        return list(keys), []
    values = first_values(plain, _separator(plain, options), quotes=plain.suffix != INTER)
    if plain.suffix == INTER:
        if wrong := [value for value in values if ":" not in value]:
            raise ValueError(f"{plain}: its header must give each field a type, got {wrong[0]!r}")
        return [value.rpartition(":")[0] for value in values], []
    if options.no_header:
        return [str(number + 1) for number in range(len(values))], values
    return values, []


def _separator(plain: Path, options: RankingData) -> str:
    """The character between values."""
    separator = "tab" if plain.suffix == INTER else options.separator
    if separator is None:
        line = re.sub('"[^"]*"', "", _beginning(plain).lstrip().partition("\n")[0])
        separator = max(_SEPARATORS, key=line.count)
    separator = _SPELLINGS.get(separator, separator)
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    return separator


def read_text(
    path: Path,
    columns: Mapping[str, int],
    options: RankingData,
    *,
    separator: str,
    quotes: bool = True,
    whole_ids: bool = False,
) -> tuple[pl.DataFrame, int]:
    """Read interactions from some columns of a text file in UTF-8.

    ``columns`` has the position, counted from 0, of ``user``, ``item`` and maybe ``rating`` and
    ``timestamp``; other columns are only counted. The rest is as for :func:`interaction_columns`.
    """
    width = max(len(first_values(path, separator, quotes=quotes)), 1 + max(columns.values()))
    names = [str(place) for place in range(width + 1)]  # the last is for what a line has too many
    table = pl.scan_csv(
        path,
        separator=separator,
        quote_char='"' if quotes else None,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        missing_columns="insert",
        truncate_ragged_lines=True,
        row_index_name="line",
        row_index_offset=1,
        glob=False,
    )
    places = {**columns, "surplus": width}
    rows = (
        table.filter(~pl.all_horizontal(pl.col(names).is_null()))
        .slice(int(not options.no_header))
        .select("line", *(pl.col(str(at)).alias(name) for name, at in places.items()))
    )
    with _advice(path):
        return interaction_columns(rows, f"{path}, line", options, whole_ids=whole_ids)


def first_values(path: Path, separator: str, *, quotes: bool = True) -> list[str]:
    """The values in the first line of a text file that is not blank, usually names of columns."""
    lines = _beginning(path).splitlines(keepends=True)
    quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(lines, delimiter=separator, quoting=quoting)  # type: ignore[arg-type]
    try:
        values = next((row for row in reader if any(row)), [])
    except csv.Error as error:
        raise ValueError(f"{path}, line 1: {error}") from None
    if not values:
        raise ValueError(f"{path} is empty")
    if any("\0" in value for value in values):
        raise ValueError(f"cannot read {path}: {_not_utf8(path)}")
    return [value.strip() for value in values]


def _beginning(path: Path) -> str:
    """The first part of a text file."""
    with path.open("rb") as file:
        text = file.read(_HEADER).decode("utf-8-sig", errors="replace")
    if text.startswith("\ufffd"):
        raise ValueError(f"cannot read {path}: {_not_utf8(path)}")
    return text
