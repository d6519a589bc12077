"""Tables with named columns: CSV, TSV, any separated text with a header, and Parquet.

In text, the first line names the columns, every further line is one interaction, values may be
quoted with double quotes, and blank lines are skipped. The default separator is whichever of tab,
comma, semicolon and bar is most frequent in the first line. In Parquet, any file that Polars reads
works. Both may be compressed; see ``packed.py``. A table may be split over several files that each
name the columns.

``user`` and ``item`` may be whole numbers or text; surrounding blanks are ignored. ``007`` and
``7`` are two users: ids are read as numbers only if all are in the canonical form of a number. A
``timestamp`` is a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00 (then seconds since
1970 in UTC). A row that lacks a value in a used column is an error. Other columns are ignored, but
a line with more values than the header is an error. If columns are not named, they are guessed; see
:mod:`~bayescl_lab.ranking.readers.naming`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.columns import common_ids, interaction_columns
from bayescl_lab.ranking.readers.naming import chosen_columns
from bayescl_lab.ranking.readers.packed import table_suffix, unpacked
from bayescl_lab.ranking.readers.quoted import header_of, read_quoted
from bayescl_lab.ranking.readers.raw import RawInteractions

_SEPARATORS = ("\t", ",", ";", "|")
_SPELLINGS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
PARQUET = (".parquet", ".pq")
_HEADER = 1 << 20
"""Bytes of a compressed text to unpack for its header."""


def read_table(
    path: Path, columns: Mapping[str, str | None], *, separator: str | None = None
) -> pl.DataFrame:
    """Read named columns of a table.

    Args:
        path: a Parquet file by its suffix, else text; may be compressed.
        columns: name in the file of ``user``, ``item`` and other required columns; None to guess
            it.
        separator: one character, or "tab", "comma" or "semicolon"; default: detected.

    Returns:
        The columns, under these names.

    Raises:
        ValueError: if a column is missing or a value is invalid; the message names the file and the
            line.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with unpacked(path) as plain:
        if plain.suffix.lower() in PARQUET:
            return _parquet(plain, columns)
        separator = _separator(plain, separator)
        header = header_of(plain, separator)
        found = chosen_columns(header, columns, plain)
        places = {name: header.index(column) for name, column in found.items()}
        return read_quoted(plain, separator=separator, columns=places)


def table_header(path: Path, separator: str | None = None) -> list[str]:
    """The names of a table's columns.

    Args:
        path: the table.
        separator: as for :func:`read_table`.

    Raises:
        ValueError: if the file cannot be read as a table.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    is_parquet = table_suffix(path) in PARQUET
    with unpacked(path, first=None if is_parquet else _HEADER) as plain:
        if plain.suffix.lower() in PARQUET:
            return _schema(plain)
        return header_of(plain, _separator(plain, separator))


def read_tables(
    train: Path | Sequence[Path],
    test: Path | None,
    columns: Mapping[str, str | None],
    *,
    separator: str | None = None,
    name: str,
) -> RawInteractions:
    """Read a table, and optionally a second one as its test part; see :func:`read_table`.

    Args:
        train: the table, or its files.
        test: its test part, or None.
        columns: as for :func:`read_table`.
        separator: as for :func:`read_table`.
        name: name of the data set in tables and messages.
    """
    paths = [train] if isinstance(train, Path) else train
    parts = [read_table(path, columns, separator=separator) for path in paths]
    given = None if test is None else read_table(test, columns, separator=separator)
    return RawInteractions(train=_joined(parts), test=given, name=name)


def _joined(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of several files, with ids of one type."""
    if len(parts) == 1:
        return parts[0]
    for name in ("user", "item"):
        series = common_ids([part[name] for part in parts])
        parts = [part.with_columns(ids) for part, ids in zip(parts, series, strict=True)]
    return pl.concat(parts)


def _separator(path: Path, separator: str | None) -> str:
    """The character between values."""
    if separator is None:
        separator = max(_SEPARATORS, key=_first_line(path).count)
    separator = _SPELLINGS.get(separator, separator)
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    return separator


def _first_line(path: Path) -> str:
    """The first line that is not blank."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return next((line for line in file if line.strip()), "")


def _schema(path: Path) -> list[str]:
    """The names of a Parquet file's columns."""
    try:
        return list(pl.read_parquet_schema(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read {path}: {str(error).partition(chr(10))[0]}") from None


def _parquet(path: Path, columns: Mapping[str, str | None]) -> pl.DataFrame:
    """Named columns of a Parquet file."""
    found = chosen_columns(_schema(path), columns, path)
    try:
        wanted = pl.scan_parquet(path, glob=False, hive_partitioning=False).select(
            pl.col(column).alias(name) for name, column in found.items()
        )
        frame = interaction_columns(
            wanted.with_row_index("row"), lambda row: f"{path}, row {row + 1}"
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read {path}: {str(error).partition(chr(10))[0]}") from None
    if frame.height == 0:
        raise ValueError(f"{path} has no interactions")
    return frame
