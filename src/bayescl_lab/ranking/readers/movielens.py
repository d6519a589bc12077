"""The original files of MovieLens-100k and MovieLens-1M.

``u.data``: user, item, rating and timestamp, separated by tabs. ``ratings.dat``: the same,
separated by ``::``. Titles come from ``u.item`` (fields separated by ``|``) and ``movies.dat``,
both in Latin-1; without these files there are no titles.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.lines import read_separated
from bayescl_lab.ranking.readers.raw import RawInteractions

_COLUMNS = {"user": 0, "item": 1, "rating": 2, "timestamp": 3}


def read_ml_100k(path: Path, *, name: str) -> RawInteractions:
    """Read ``u.data``, with titles from ``u.item`` beside it.

    Raises:
        ValueError: if a file is damaged; the message names the file and the line.
    """
    frame = read_separated(path, separator="\t", columns=_COLUMNS, whole_ids=True)
    titles = read_titles(path.parent / "u.item", separator="|")
    return RawInteractions(train=frame, titles=titles, name=name)


def read_ml_1m(path: Path, *, name: str) -> RawInteractions:
    """Read ``ratings.dat``, with titles from ``movies.dat`` beside it.

    Raises:
        ValueError: if a file is damaged; the message names the file and the line.
    """
    frame = read_separated(path, separator="::", columns=_COLUMNS, whole_ids=True)
    titles = read_titles(path.parent / "movies.dat", separator="::")
    return RawInteractions(train=frame, titles=titles, name=name)


def read_titles(path: Path, *, separator: str) -> pl.DataFrame | None:
    """Items and titles, the first two fields of every line; None if there is no such file.

    Raises:
        ValueError: if a line has fewer than two fields; the message names it.
    """
    if not path.is_file():
        return None
    items, titles = [], []
    for number, line in enumerate(path.read_text(encoding="latin-1").split("\n"), start=1):
        if not line.strip():
            continue
        item, found, rest = line.partition(separator)
        if not (found and item.strip()):
            raise ValueError(f"{path}, line {number}: a line must hold an item and its title")
        items.append(item.strip())
        titles.append(rest.partition(separator)[0].strip())
    return pl.DataFrame(
        {"item": items, "title": titles}, schema={"item": pl.String, "title": pl.String}
    )
