"""Tables with named columns: CSV, TSV, any separated text with a header, and Parquet.

Text: the first line names the columns, every further line is one interaction, values may stand
in double quotes, blank lines are skipped. The separator is by default that of tab, comma,
semicolon and bar which the first line has most often. Parquet: any file that Polars reads.

``user`` and ``item`` may be whole numbers or text; blanks around text do not count. ``007`` and
``7`` are two users: ids are read as numbers only where each is written as a number would be. A
``timestamp`` is a number, or a date such as 2024-05-31 or 2024-05-31T12:00:00 (then seconds since
1970 in UTC). A row that lacks one of the columns used is an error; other columns are not looked
at, but a line with more values than the header is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bayescl.recsys.readers.columns import interaction_columns
from bayescl.recsys.readers.quoted import header_of, read_quoted
from bayescl.recsys.readers.raw import RawInteractions

_SEPARATORS = ("\t", ",", ";", "|")
_SPELLINGS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
PARQUET = (".parquet", ".pq")


def read_table(
    path: Path,
    columns: Mapping[str, str],
    *,
    optional: Mapping[str, str] | None = None,
    separator: str | None = None,
) -> pl.DataFrame:
    """Read named columns of a table.

    Args:
        path: a Parquet file if its name says so, else text.
        columns: name in the file of ``user``, ``item`` and whatever else must be there.
        optional: the same for columns that are read only where the file has them.
        separator: one character, or "tab", "comma" or "semicolon"; default: found out.

    Returns:
        The columns by their names here.

    Raises:
        ValueError: if a column is missing or a value cannot be what it must be, naming file and
            line.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffix.lower() in PARQUET:
        return _parquet(path, columns, optional or {})
    if separator is None:
        separator = max(_SEPARATORS, key=_first_line(path).count)
    separator = _SPELLINGS.get(separator, separator)
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    found = _positions(path, header_of(path, separator), columns, optional or {})
    return read_quoted(path, separator=separator, columns=found)


def read_tables(
    train: Path,
    test: Path | None,
    columns: Mapping[str, str],
    *,
    optional: Mapping[str, str] | None = None,
    separator: str | None = None,
    name: str,
) -> RawInteractions:
    """Read a table, and maybe a second one that is its test part; see :func:`read_table`."""
    paths = [train] if test is None else [train, test]
    parts = [read_table(path, columns, optional=optional, separator=separator) for path in paths]
    return RawInteractions(train=parts[0], test=parts[1] if test else None, name=name)


def _first_line(path: Path) -> str:
    """The first line that is not blank."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return next((line for line in file if line.strip()), "")


def _positions(
    path: Path, header: list[str], columns: Mapping[str, str], optional: Mapping[str, str]
) -> dict[str, int]:
    """Where in the header the columns stand."""
    for name, column in columns.items():
        if column not in header:
            raise ValueError(
                f"{path} has no column {column!r} for the {name}s; "
                f"it has {', '.join(header[:12])}: name the right one with {name}_column"
            )
    wanted = {**columns, **{name: column for name, column in optional.items() if column in header}}
    for column in wanted.values():
        if list(wanted.values()).count(column) > 1:
            raise ValueError(f"{path}: column {column!r} cannot be two things at once")
        if header.count(column) > 1:
            raise ValueError(f"{path} has {header.count(column)} columns called {column!r}")
    return {name: header.index(column) for name, column in wanted.items()}


def _parquet(path: Path, columns: Mapping[str, str], optional: Mapping[str, str]) -> pl.DataFrame:
    """Named columns of a Parquet file."""
    try:
        header = list(pl.read_parquet_schema(path))
        found = _positions(path, header, columns, optional)
        frame = pl.read_parquet(path, columns=[header[position] for position in found.values()])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"cannot read {path}: {str(error).partition(chr(10))[0]}") from None
    if frame.height == 0:
        raise ValueError(f"{path} has no interactions")
    wanted = frame.select(pl.col(header[position]).alias(name) for name, position in found.items())
    return interaction_columns(wanted.with_row_index("row"), lambda row: f"{path}, row {row + 1}")
