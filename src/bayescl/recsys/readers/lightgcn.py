"""The text format of LightGCN's data sets: Gowalla, Yelp2018, Amazon-Book.

A folder with ``train.txt`` and ``test.txt``. Every line is a user followed by all items of that
user, whole numbers separated by blanks. A user without items is allowed and counted.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl.recsys.readers.raw import RawInteractions

FILES = ("train.txt", "test.txt")


def read_lightgcn(folder: Path, *, name: str) -> RawInteractions:
    """Read the given training and test part of a folder.

    Raises:
        ValueError: if a file is missing, empty, or has something else than whole numbers.
    """
    parts, empty = [], 0
    for file in FILES:
        part, empty_here = _read_lists(folder / file)
        parts.append(part)
        empty += empty_here
    report = {"lines with a user but no item": empty} if empty else {}
    return RawInteractions(train=parts[0], test=parts[1], name=name, report=report)


def _read_lists(path: Path) -> tuple[pl.DataFrame, int]:
    """Pairs of one file, and the number of its lines with a user alone."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8 text") from None
    words = pl.DataFrame({"line": pl.Series(lines).str.extract_all(r"\S+")})
    words = words.with_row_index("number", offset=1).filter(pl.col("line").list.len() > 0)
    if words.height == 0:
        raise ValueError(f"{path} is empty")
    numbers = words.with_columns(pl.col("line").cast(pl.List(pl.Int64), strict=False))
    bad = numbers.filter(pl.col("line").list.eval(pl.element().is_null()).list.any())
    if bad.height:
        line = bad["number"][0]
        wrong = next(word for word in lines[line - 1].split() if not _is_whole(word))
        raise ValueError(f"{path}, line {line}: ids must be whole numbers, got {wrong!r}")
    pairs = numbers.select(
        pl.col("line").list.first().alias("user"),
        pl.col("line").list.slice(1).alias("item"),
    )
    alone = pairs.select((pl.col("item").list.len() == 0).sum()).item()
    pairs = pairs.filter(pl.col("item").list.len() > 0).explode("item")
    if pairs.height == 0:
        raise ValueError(f"{path} has no interactions")
    return pairs, int(alone)


def _is_whole(word: str) -> bool:
    """Whether a word is a whole number that fits 64 bits."""
    try:
        return -(2**63) <= int(word) < 2**63
    except ValueError:
        return False
