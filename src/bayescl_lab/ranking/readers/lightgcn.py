"""The text format of LightGCN's data sets: Gowalla, Yelp2018, Amazon-Book.

A folder with ``train.txt`` and ``test.txt``. Every line is a user followed by all items of that
user, whole numbers separated by blanks. A user without items is allowed and counted.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.lines import read_lines
from bayescl_lab.ranking.readers.raw import RawInteractions

FILES = ("train.txt", "test.txt")


def read_lightgcn(folder: Path, *, name: str) -> RawInteractions:
    """Read the training and test part in a folder.

    Raises:
        ValueError: if a file is missing or empty, or holds anything but whole numbers.
    """
    parts, empty = [], 0
    for file in FILES:
        part, empty_here = _read_lists(folder / file)
        parts.append(part)
        empty += empty_here
    report = {"lines with a user but no item": empty} if empty else {}
    return RawInteractions(train=parts[0], test=parts[1], name=name, report=report)


def _read_lists(path: Path) -> tuple[pl.DataFrame, int]:
    """Pairs of one file, and the number of its lines with only a user."""
    lines = read_lines(path)
    words = lines.select("number", pl.col("text").str.extract_all(r"\S+").alias("line"))
    numbers = words.with_columns(pl.col("line").cast(pl.List(pl.Int64), strict=False))
    bad = numbers.filter(pl.col("line").list.eval(pl.element().is_null()).list.any())
    if bad.height:
        first = words.filter(pl.col("number") == bad["number"][0])
        whole = bad["line"][0].is_not_null()
        wrong = first["line"][0].filter(~whole)[0]
        raise ValueError(
            f"{path}, line {first['number'][0]}: ids must be whole numbers, got {wrong!r}"
        )
    pairs = numbers.select(
        pl.col("line").list.first().alias("user"),
        pl.col("line").list.slice(1).alias("item"),
    )
    alone = pairs.select((pl.col("item").list.len() == 0).sum()).item()
    pairs = pairs.filter(pl.col("item").list.len() > 0).explode("item")
    if pairs.height == 0:
        raise ValueError(f"{path} has no interactions")
    return pairs, int(alone)
