"""Text tables with a header and optional double quotes (RFC 4180).

Polars reads the file in pieces and keeps the wanted columns. Only if something is wrong, a second,
slow pass with the standard library's reader finds the line to name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.columns import interaction_columns
from bayescl_lab.ranking.readers.lines import read_text


def read_quoted(path: Path, *, separator: str, columns: Mapping[str, int]) -> pl.DataFrame:
    """Read interactions from some columns of a text table.

    Args:
        path: the file.
        separator: one character.
        columns: position, counted from 0, of ``user``, ``item`` and maybe ``rating`` and
            ``timestamp``. Other columns are only counted.

    Returns:
        The columns, under these names, without blank lines.

    Raises:
        ValueError: if a line lacks a value, has more values than the header, has text instead of a
            number, or has broken quotes; the message names it.
    """
    try:
        table = pl.scan_csv(
            path,
            separator=separator,
            infer_schema=False,  # every column stays text
            glob=False,
        )
        width = table.collect_schema().len()
        wanted = (
            table.with_row_index("row")
            .filter(~pl.all_horizontal(pl.exclude("row").is_null()))
            .select("row", *(pl.nth(1 + place).alias(name) for name, place in columns.items()))
        )

        def place(row: int) -> str:
            line, values = _line_of(path, separator, row)
            if len(values) <= max(columns.values()):
                raise ValueError(
                    f"{path}, line {line}: there must be {width} values, got {len(values)}"
                )
            return f"{path}, line {line}"

        found = interaction_columns(wanted, place)
    except (pl.exceptions.PolarsError, OSError) as error:
        first_line = str(error).partition("\n")[0]
        damage = _damage(path, separator) or f"cannot read {path}: {first_line}"
        raise ValueError(damage) from None
    if found.height == 0:
        raise ValueError(f"{path} has no interactions")
    return found


def header_of(path: Path, separator: str) -> list[str]:
    """The names in the first non-blank line of a text table.

    Raises:
        ValueError: if there is none, or its quotes are broken.
    """
    try:
        for _, values in _rows(path, separator):
            if values:
                return [value.strip() for value in values]
    except csv.Error as error:
        raise ValueError(f"{path}, {error}") from None
    except UnicodeDecodeError:
        read_text(path)  # says in which line
    raise ValueError(f"{path} is empty")


def _damage(path: Path, separator: str) -> str | None:
    """The first line with more values than the header, or with broken quotes."""
    read_text(path)
    width = 0
    try:
        for line, values in _rows(path, separator):
            width = width or len(values)
            if len(values) > width:
                return f"{path}, line {line}: there must be {width} values, got {len(values)}"
    except csv.Error as error:
        return f"{path}, {error}"
    return None


def _line_of(path: Path, separator: str, row: int) -> tuple[int, list[str]]:
    """Number and values of the line that became a row of the table."""
    rows = _rows(path, separator)
    try:
        next(values for _, values in rows if values)
        return next(found for number, found in enumerate(rows) if number == row)
    except (csv.Error, StopIteration):  # what Polars puts up with and the other reader does not
        raise ValueError(f"{path}: the quotes before row {row + 1} are broken") from None


def _rows(path: Path, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Number of the first line, counted from 1, and values of every row."""
    line = 1
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter=separator, strict=True)
        try:
            for values in reader:
                yield line, values
                line = reader.line_num + 1
        except csv.Error as error:
            raise csv.Error(f"line {line}: {error}") from None
