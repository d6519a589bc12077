"""Text with one interaction per line and a separator between values.

Polars reads the whole file at once. Only when something is wrong does a second, slow pass with
the standard library's reader find the line to name.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from bayescl.recsys.readers.columns import interaction_columns

_NOT_TEXT = "\ud800"
"""From here on, code points stand for bytes that are no UTF-8 (``surrogateescape``)."""


def read_delimited(
    path: Path, *, separator: str, columns: Mapping[str, int], header: bool, quotes: bool
) -> pl.DataFrame:
    """Read some columns of a text file.

    Args:
        path: the file, UTF-8.
        separator: what stands between values: one character, or one character twice.
        columns: position, counted from 0, of ``user``, ``item`` and, if wanted, ``rating`` and
            ``timestamp``. Other columns are not looked at.
        header: whether the first line names the columns.
        quotes: whether values may stand in double quotes.

    Returns:
        The columns by their names here: ids as text, the others as numbers. Blank lines are
        left out.

    Raises:
        ValueError: naming the line that is too short or too long, lacks an id, has text where a
            number must be, breaks its quotes or is no UTF-8.
    """
    frame = _read(path, separator, header=header, quotes=quotes)
    step = len(separator)
    short = max(columns.values()) >= (frame.width + step - 1) // step
    if short:
        raise ValueError(
            f"{path}: every line must have {max(columns.values()) + 1} values "
            f"separated by {separator!r}, line 1 has fewer"
        )
    blank = pl.all_horizontal(pl.all().is_null())
    wanted = frame.select(
        blank.alias("blank"),
        *(pl.nth(step * position).alias(name) for name, position in columns.items()),
    ).with_row_index("row")
    wanted = wanted.filter(~pl.col("blank")).drop("blank")

    def where(row: int) -> str:
        line, values = _line_of(path, separator, row, header=header, quotes=quotes)
        needed = max(columns.values()) + 1
        if len(values) < needed:
            return f"{path}, line {line}: there must be {needed} values, got {len(values)}"
        return f"{path}, line {line}"

    return interaction_columns(wanted, where)


def header_of(path: Path, separator: str) -> list[str]:
    """The names in the first line of a file that has something in it.

    Raises:
        ValueError: if there is no file, or nothing in it.
    """
    for _, values in _rows(path, separator, quotes=True):
        if values:
            return [value.strip() for value in values]
    raise ValueError(f"{path} is empty")


def _read(path: Path, separator: str, *, header: bool, quotes: bool) -> pl.DataFrame:
    """All columns as text; what Polars cannot read becomes an error that names the line."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        # An infinite schema length of nothing: every column stays text.
        frame = pl.read_csv(
            path,
            separator=separator[0],
            has_header=header,
            quote_char='"' if quotes else None,
            infer_schema_length=0,
            glob=False,
        )
    except pl.exceptions.NoDataError:
        raise ValueError(f"{path} is empty") from None
    except pl.exceptions.PolarsError as error:
        damage = _first_damage(path, separator, quotes=quotes)
        first_line = str(error).partition("\n")[0]
        raise ValueError(damage or f"cannot read {path}: {first_line}") from None
    if frame.height == 0:
        raise ValueError(f"{path} has no interactions")
    return frame


def _first_damage(path: Path, separator: str, *, quotes: bool) -> str | None:
    """The first line with more values than the first one, broken quotes or foreign bytes."""
    width = None
    try:
        for line, values in _rows(path, separator, quotes=quotes):
            if any(character >= _NOT_TEXT for value in values for character in value):
                foreign = any("\udc80" <= char <= "\udcff" for value in values for char in value)
                if foreign:
                    return f"{path}, line {line} is no UTF-8 text"
            if values and width is None:
                width = len(values)
            if width is not None and len(values) > width:
                return f"{path}, line {line}: there must be {width} values, got {len(values)}"
    except csv.Error as error:
        return f"{path}: {error}"
    return None


def _line_of(
    path: Path, separator: str, row: int, *, header: bool, quotes: bool
) -> tuple[int, list[str]]:
    """Number and values of the line that became a row of the table."""
    rows = _rows(path, separator, quotes=quotes)
    if header:
        next(values for _, values in rows if values)
    for number, (line, values) in enumerate(rows):
        if number == row:
            return line, values
    raise ValueError(f"{path} changed while it was read")


def _rows(path: Path, separator: str, *, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """Line number, counted from 1, and values of every row, by the standard library."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        if len(separator) > 1:
            for line, text in enumerate(file, start=1):
                yield line, text.rstrip("\r\n").split(separator) if text.strip() else []
            return
        quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        reader = csv.reader(file, delimiter=separator, quoting=quoting, strict=True)
        line = 1
        try:
            for values in reader:
                yield line, values
                line = reader.line_num + 1
        except csv.Error as error:
            raise csv.Error(f"line {line} cannot be read: {error}") from None
