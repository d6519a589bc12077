"""Tables with named columns: CSV, TSV, any separated text, JSON Lines, and Parquet.

In text, the first line names the columns, every further line is one interaction, values may be
quoted with double quotes (RFC 4180), and blank lines are skipped. The default separator is
whichever of tab, comma, semicolon and bar is most frequent in the first line. In Parquet, any file
that Polars reads works. JSON Lines have an object in each line, whose keys are the columns; values
are read as in text. All may be compressed; see ``archives.py``. A table may be split over
several files that each name the columns.

``user`` and ``item`` may be whole numbers or text; surrounding blanks are ignored. ``007`` and
``7`` are two users: ids are read as numbers only if all are in the canonical form of a number. A
``timestamp`` is a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00 (then seconds since
1970 in UTC). A row that lacks a value in a used column is an error, or left out and counted. Other
columns are ignored, but a line with more values than the header is an error, too. If columns are
not named, they are guessed; see :mod:`~bayescl_lab.ranking.readers.columns`.

Polars reads text in pieces and keeps the used columns. Only if something is wrong, a second, slow
pass with the standard library's reader finds the line to name.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal

import polars as pl

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.archives import INTER, JSONL, PARQUET, table_suffix, unpacked
from bayescl_lab.ranking.readers.columns import (
    BadRowError,
    NotUTF8Error,
    RawInteractions,
    chosen_columns,
    common_ids,
    interaction_columns,
)

_SEPARATORS = ("\t", ",", ";", "|")
_SPELLINGS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
_HEADER = 1 << 20
"""Bytes of a compressed text to unpack for its header."""
_KEYS_FROM = 100
"""Lines of JSON whose keys are the columns."""
_LONGEST = 1 << 24
"""Characters of the longest line, so that a file without line ends is not held in memory."""


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
    return RawInteractions(pl.concat(parts), given, name=name, report=report)


def table_header(path: Path, options: RankingData) -> list[str]:
    """The names of a table's columns; a ``ValueError`` if the file cannot be read as a table."""
    first = None if table_suffix(path) in PARQUET else _HEADER
    with unpacked(path, encoding=options.encoding, first=first) as plain, _advice(plain):
        return _header(plain, options)


def _read_table(path: Path, options: RankingData) -> tuple[pl.DataFrame, int]:
    """The wanted columns of a table, and the number of rows left out."""
    with unpacked(path, encoding=options.encoding) as plain, _advice(plain):
        header = _header(plain, options)
        columns = chosen_columns(header, options.columns, plain)
        if plain.suffix.lower() in PARQUET:
            rows = pl.scan_parquet(plain, glob=False, hive_partitioning=False).select(
                pl.col(name).alias(kind) for kind, name in columns.items()
            )
            table, left_out = interaction_columns(
                rows.with_row_index("row", offset=1),
                lambda row: f"{plain}, row {row}",
                skip_bad_rows=options.skip_bad_rows,
            )
        elif plain.suffix.lower() in JSONL:
            table, left_out = _read_json(plain, columns, skip_bad_rows=options.skip_bad_rows)
        else:
            table, left_out = read_text(
                plain,
                {kind: header.index(name) for kind, name in columns.items()},
                separator=_separator(plain, options),
                header=not options.no_header,
                quotes=plain.suffix != INTER,
                skip_bad_rows=options.skip_bad_rows,
            )
        if table.height == 0:
            why = f": all {left_out} rows lack a value or have an unparsable one" * bool(left_out)
            raise ValueError(f"{plain} has no interactions{why}")
        return table, left_out


@contextmanager
def _advice(plain: Path) -> Iterator[None]:
    """Errors of Polars as a ``ValueError``, and of text with the option that reads it anyway."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise _unreadable(plain, error) from None
    except NotUTF8Error as error:
        raise ValueError(f"{error}: {_encodings(plain)}") from None
    except BadRowError as error:
        raise ValueError(f"{error}; --skip-bad-rows leaves such rows out") from None


def _header(plain: Path, options: RankingData) -> list[str]:
    """The names of the columns of a plain table."""
    if plain.is_file() and plain.suffix.lower() in PARQUET:
        return list(pl.read_parquet_schema(plain))
    if plain.suffix.lower() in JSONL:
        first = islice(_json_lines(plain, partly=True), _KEYS_FROM)
        return list(dict.fromkeys(key for _, values in first for key in values))
    values = first_values(plain, _separator(plain, options), quotes=plain.suffix != INTER)
    if plain.suffix == INTER:
        if wrong := [value for value in values if ":" not in value]:
            raise ValueError(f"{plain}: its header must give each field a type, got {wrong[0]!r}")
        return [value.rpartition(":")[0] for value in values]
    return [str(number + 1) for number in range(len(values))] if options.no_header else values


def _separator(plain: Path, options: RankingData) -> str:
    """The character between values."""
    separator = "tab" if plain.suffix == INTER else options.separator
    if separator is None:
        line = next((line for line in text_lines(plain) if line.strip()), "")
        separator = max(_SEPARATORS, key=line.count)
    separator = _SPELLINGS.get(separator, separator)
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    return separator


def _read_json(
    path: Path, columns: Mapping[str, str], *, skip_bad_rows: bool
) -> tuple[pl.DataFrame, int]:
    """Interactions from some keys of the objects of a file, as :func:`interaction_columns`."""
    # Values are text as in other tables, so ids may be numbers in one line and words in the next.
    rows = pl.scan_ndjson(path, schema=dict.fromkeys(columns.values(), pl.String)).select(
        pl.col(name).alias(kind) for kind, name in columns.items()
    )

    def place(row: int) -> str:
        line, _ = next(islice(_json_lines(path), row, None))
        return f"{path}, line {line}"

    try:
        rows = rows.with_row_index("row")
        return interaction_columns(rows, place, skip_bad_rows=skip_bad_rows)
    except pl.exceptions.PolarsError as error:
        for _ in _json_lines(path):
            pass  # names the first line that is not an object
        raise _unreadable(path, error) from None


def _json_lines(path: Path, *, partly: bool = False) -> Iterator[tuple[int, dict[str, object]]]:
    """The number and object of every line that is not blank.

    ``partly`` ends at a broken line that is not the first, as the start of a file may have one.
    """
    number = 0
    for number, line in enumerate(text_lines(path), 1):
        if line.strip():
            try:
                values = json.loads(line)
            except (ValueError, RecursionError):
                values = None
            if isinstance(values, dict):
                yield number, values
            elif partly and number > 1:
                return
            else:
                raise ValueError(f"{path}, line {number}: this is not a JSON object")
    if number == 0:
        raise ValueError(f"{path} is empty")


def read_text(
    path: Path,
    columns: Mapping[str, int],
    *,
    separator: str,
    header: bool = False,
    quotes: bool = True,
    whole_ids: bool = False,
    skip_bad_rows: bool = False,
) -> tuple[pl.DataFrame, int]:
    """Read interactions from some columns of a text file in UTF-8.

    Args:
        path: the file.
        columns: position, counted from 0, of ``user``, ``item`` and maybe ``rating`` and
            ``timestamp``. Other columns are only counted.
        separator: one character.
        header: whether the first line names the columns.
        quotes: whether values may be quoted.
        whole_ids: as for :func:`interaction_columns`.
        skip_bad_rows: likewise; a row with more values than the first line is bad, too.

    Returns:
        As :func:`interaction_columns`; blank lines do not count.
    """
    fewest = max(columns.values()) + 1
    width = max(len(first_values(path, separator, quotes=quotes)), fewest)
    table = pl.scan_csv(
        path,
        separator=separator,
        quote_char='"' if quotes else None,
        has_header=False,
        # Every column stays text. What a bad line has beyond the last column goes into one more.
        schema={f"column_{1 + place}": pl.String for place in range(width + skip_bad_rows)},
        missing_columns="insert",  # a line may have fewer values, the others are null
        truncate_ragged_lines=skip_bad_rows,
        glob=False,
    )
    lines = table.filter(~pl.all_horizontal(pl.all().is_null())).slice(int(header))
    places = {**columns, "surplus": width} if skip_bad_rows else columns
    rows = lines.with_row_index("row", offset=int(header)).select(
        "row", *(pl.col(f"column_{1 + place}").alias(name) for name, place in places.items())
    )

    def wrong_count(line: int, values: list[str]) -> BadRowError:
        return BadRowError(f"{path}, line {line}: there must be {width} values, got {len(values)}")

    def place(row: int) -> str:
        line, values = next(islice(_rows(path, separator, quotes), row, None), (0, []))
        if not line:  # what Polars puts up with and the other reader does not
            raise ValueError(f"{path}: the quotes before row {row} are broken")
        if len(values) < fewest:
            raise wrong_count(line, values)
        return f"{path}, line {line}"

    try:
        return interaction_columns(rows, place, whole_ids=whole_ids, skip_bad_rows=skip_bad_rows)
    except pl.exceptions.PolarsError as error:
        for line, values in _rows(path, separator, quotes):
            if len(values) > width:
                raise wrong_count(line, values) from None
        raise _unreadable(path, error) from None


def first_values(path: Path, separator: str, *, quotes: bool = True) -> list[str]:
    """The values in the first line of a text file that is not blank, usually names of columns."""
    _, values = next(_rows(path, separator, quotes), (0, []))
    if not values:
        raise ValueError(f"{path} is empty")
    return [value.strip() for value in values]


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text file, with their ends; errors name one that is not UTF-8 or endless."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST), ""), 1):
            if len(line) == _LONGEST:
                raise ValueError(f"{path}, line {number}: it has {_LONGEST} characters or more")
            if not line.isascii() and re.search("[\udc80-\udcff]", line):
                raise NotUTF8Error(f"{path}, line {number}: this is not UTF-8 text")
            yield line


def _encodings(path: Path) -> str:
    """What to do about a text that is not UTF-8: no one encoding reads a mixture of two."""
    lines: dict[bool, list[int]] = {True: [], False: []}
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, _LONGEST), b""), 1):
            if not line.isascii():
                try:
                    line.decode()
                except UnicodeDecodeError:
                    lines[False].append(number)
                else:
                    lines[True].append(number)
    if not lines[True]:
        return "name its encoding, such as latin-1, with --encoding"
    utf8, other = (
        ", ".join(map(str, of[:5])) + ", ..." * (len(of) > 5) for of in (lines[True], lines[False])
    )
    return (
        f"the table mixes encodings, UTF-8 in lines {utf8} and another one in lines {other}: "
        "convert these to UTF-8, since in one encoding equal ids would differ"
    )


def _rows(path: Path, separator: str, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line, counted from 1, and values of every row that is not blank."""
    line = 1
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    reader = csv.reader(text_lines(path), delimiter=separator, quoting=quoting, strict=True)
    try:
        for values in reader:
            if any(values):
                yield line, values
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {line}: {error}") from None


def _unreadable(path: Path, error: Exception) -> ValueError:
    """The first line of an error, with the file's name."""
    return ValueError(f"cannot read {path}: {str(error).partition(chr(10))[0]}")
