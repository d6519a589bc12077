"""RecBole's atomic files: ``NAME.inter``, text separated by tabs with a typed header.

The header gives name and type of each field, such as ``user_id:token``. Ids are of type
``token``; ratings and timestamps of type ``float``. Titles come from ``NAME.item`` beside it, if
that has a field ``movie_title``, ``title`` or ``name``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.lines import read_lines, read_separated
from bayescl_lab.ranking.readers.naming import chosen_columns
from bayescl_lab.ranking.readers.raw import RawInteractions

SUFFIX = ".inter"
_TITLES = ("movie_title", "title", "name")
_TYPES = {"user": "token", "item": "token", "rating": "float", "timestamp": "float"}


def read_inter(
    path: Path,
    test: Path | None,
    columns: Mapping[str, str | None],
    *,
    name: str,
) -> RawInteractions:
    """Read a file, and optionally a second one as its test part.

    Args:
        path: the ``.inter`` file.
        test: another one, or None.
        columns: field, without its type, of ``user``, ``item`` and other required columns; None to
            guess it.
        name: name of the data set.

    Raises:
        ValueError: if a field is missing or of another type, or a line is damaged; the message
            names it.
    """
    parts = [_read(file, columns) for file in (path, test) if file is not None]
    item = chosen_columns(inter_header(path), columns, path, "field")["item"]
    titles = _titles(path.with_suffix(".item"), item)
    return RawInteractions(
        train=parts[0], test=parts[1] if test else None, titles=titles, name=name
    )


def _titles(path: Path, item: str) -> pl.DataFrame | None:
    """Items and titles from the file of items; None if it or its titles are missing."""
    if not path.is_file():
        return None
    lines = read_lines(path)
    rows = [text.rstrip("\r").split("\t") for text in lines["text"]]
    names = [field.partition(":")[0] for field in rows[0]]
    title = next((name for name in _TITLES if name in names), None)
    if title is None or item not in names:
        return None
    for number, row in zip(lines["number"], rows, strict=True):
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {number}: there must be {len(names)} values, got {len(row)}"
            )
    positions = {"item": names.index(item), "title": names.index(title)}
    return pl.DataFrame(
        {
            name: pl.Series([row[position].strip() for row in rows[1:]], dtype=pl.String)
            for name, position in positions.items()
        }
    )


def inter_header(path: Path) -> list[str]:
    """The names of the fields, without their types.

    Raises:
        ValueError: if a field has no type.
    """
    return list(_types(path))


def _types(path: Path) -> dict[str, str]:
    """The type of every field."""
    types: dict[str, str] = {}
    for field in read_lines(path)["text"][0].rstrip("\r").split("\t"):
        name, found, kind = field.rpartition(":")
        if not found:
            raise ValueError(f"{path}: its header must give each field a type, got {field!r}")
        types[name] = kind
    return types


def _read(path: Path, columns: Mapping[str, str | None]) -> pl.DataFrame:
    """The fields of one file."""
    types = _types(path)
    names = list(types)
    wanted = chosen_columns(names, columns, path, "field")
    for name, field in wanted.items():
        if types[field] != _TYPES[name]:
            raise ValueError(
                f"{path}: {field} must be of type {_TYPES[name]}, got {types[field]!r}"
            )
    positions = {name: names.index(field) for name, field in wanted.items()}
    return read_separated(path, separator="\t", columns=positions, header=True)
