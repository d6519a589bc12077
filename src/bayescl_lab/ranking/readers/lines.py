"""Unquoted text files with one record per line: lines, and separated values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.columns import interaction_columns


def read_lines(path: Path) -> pl.DataFrame:
    """The non-blank lines of a text file.

    Returns:
        Columns ``number``, counted from 1 with blank lines, and ``text``.

    Raises:
        ValueError: if the file is missing, empty or not UTF-8; the message names the line.
    """
    whole = pl.DataFrame({"text": [read_text(path)]})
    lines = whole.select(pl.col("text").str.split("\n").explode())
    frame = lines.with_row_index("number", offset=1)
    frame = frame.filter(pl.col("text").str.contains(r"\S"))
    if frame.height == 0:
        raise ValueError(f"{path} is empty")
    return frame


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        ValueError: if there is no such file, or it is not UTF-8; the message names the line.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}, line {line}: this is not UTF-8 text") from None


def read_separated(
    path: Path,
    *,
    separator: str,
    columns: Mapping[str, int],
    header: bool = False,
    whole_ids: bool = False,
) -> pl.DataFrame:
    """Read interactions from lines with the same number of values.

    Args:
        path: the file.
        separator: separator of values, one or more characters.
        columns: position, counted from 0, of ``user``, ``item`` and maybe ``rating`` and
            ``timestamp``. Other values are ignored.
        header: whether the first line names the columns.
        whole_ids: whether ids must be whole numbers.

    Returns:
        The columns, under these names.

    Raises:
        ValueError: if a line has a different number of values, lacks an id, or has text instead of
            a number; the message names the first.
    """
    lines = read_lines(path)
    values = pl.col("text").str.count_matches(separator, literal=True) + 1
    counted = lines.with_columns(values.alias("values"))
    expected = max(max(columns.values()) + 1, int(counted["values"][0]))
    odd = counted.filter(pl.col("values") != expected)
    if odd.height:
        raise ValueError(
            f"{path}, line {odd['number'][0]}: there must be {expected} values, "
            f"got {odd['values'][0]}"
        )
    if header:
        lines = lines[1:]
    if lines.height == 0:
        raise ValueError(f"{path} has no interactions")
    fields = pl.col("text").str.strip_chars_end("\r").str.split_exact(separator, expected - 1)
    wanted = lines.select(
        "number",
        *(
            fields.struct.field(f"field_{position}").alias(name)
            for name, position in columns.items()
        ),
    )
    return interaction_columns(wanted, lambda line: f"{path}, line {line}", whole_ids=whole_ids)
