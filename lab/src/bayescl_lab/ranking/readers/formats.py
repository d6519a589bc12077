"""Formats of published data sets: LightGCN's, MovieLens' and Yahoo's.

==============  ==================================================================================
LightGCN        ``train.txt`` and ``test.txt`` (Gowalla, Yelp2018, Amazon-Book): each line is a
                user followed by all items of that user, integers separated by blanks. Users
                without items are counted.
MovieLens       ``u.data`` (100k): user, item, rating and timestamp, separated by tabs;
                ``ratings.dat`` (1M): the same, separated by ``::``.
Yahoo!R3        two files of user, song and rating, separated by tabs, with names ending in
                ``-train.txt`` (chosen songs, 15,400 users) and ``-test.txt`` (songs drawn at
                random, 5,400 of these users). As in Liu et al. (2024), both files are merged
                for these 5,400 users (182,000 interactions) and split again. Rows of other
                users are skipped and counted.
==============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from bayescl_lab._downloads import SOURCES
from bayescl_lab._types import Config
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import RawInteractions, read_interactions_of

Reader = Callable[[Path, str], RawInteractions]
"""Function that reads the files in a folder as a named data set. Errors name file and line."""


def read_lightgcn(folder: Path, name: str) -> RawInteractions:
    """Read the training and test split of a folder."""
    train, alone = _read_lists(folder / "train.txt")
    test, more = _read_lists(folder / "test.txt")
    report = {"lines with a user but no item": alone + more} if alone + more else {}
    return RawInteractions(train, test, name=name, report=report)


def _read_lists(path: Path) -> tuple[pl.DataFrame, int]:
    """Read the pairs of one file, and the number of lines with only a user."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    lines = path.read_text(encoding="latin-1").removeprefix("\xef\xbb\xbf").split("\n")
    words = pl.Series(lines, dtype=pl.String).str.extract_all(r"\S+")
    rows = pl.DataFrame({"words": words}).with_row_index("line", offset=1)
    rows = rows.filter(pl.col("words").list.len() > 0)
    if rows.height == 0:
        raise ValueError(f"{path} is empty")
    numbers = rows["words"].cast(pl.List(pl.Int64), strict=False)
    bad = numbers.list.eval(pl.element().is_null()).list.any()
    if bad.any():
        line, values = rows.row(bad.arg_true()[0])
        [wrong, *_] = pl.Series(values).filter(numbers.filter(bad)[0].is_null())
        raise ValueError(f"{path}, line {line}: ids must be whole numbers, got {wrong!r}")
    pairs = pl.DataFrame({"user": numbers.list.first(), "item": numbers.list.slice(1)})
    full = pairs.filter(pl.col("item").list.len() > 0).explode("item")
    if full.height == 0:
        raise ValueError(f"{path} has no interactions")
    return full, int((numbers.list.len() == 1).sum())


def read_ml_100k(folder: Path, name: str) -> RawInteractions:
    """Read ``u.data``."""
    return RawInteractions(_numbers(folder / "u.data", 4), name=name)


def read_ml_1m(folder: Path, name: str) -> RawInteractions:
    """Read ``ratings.dat``."""
    # The separator is two colons: every other column is empty.
    train = _numbers(folder / "ratings.dat", 4, separator=":", every=2)
    return RawInteractions(train, name=name)


def read_yahoo_r3(folder: Path, name: str) -> RawInteractions:
    """Read both files of a folder as one set of ratings."""
    files = [list(folder.glob(pattern)) for pattern in ("*train.txt", "*test.txt")]
    if [len(matches) for matches in files] != [1, 1]:
        raise ValueError(
            f"{folder} must contain both files of Yahoo!R3, with names that end in train.txt and "
            "in test.txt"
        )
    chosen, drawn = (_numbers(file, 3) for [file] in files)
    kept = chosen.join(drawn.select("user").unique(), on="user", how="semi")
    left_out = chosen.height - kept.height
    report = {"ratings left out (users without randomly drawn songs)": left_out}
    return RawInteractions(pl.concat([kept, drawn]), name=name, report=report if left_out else {})


_READERS: Mapping[str, Reader] = {
    "yahoo-r3": read_yahoo_r3,
    "gowalla": read_lightgcn,  # and all of LightGCN's splits
    "ml-100k": read_ml_100k,
    "ml-1m": read_ml_1m,
}
"""Readers of folders of known data sets."""


def recognized(path: Path) -> Reader | None:
    """Return the reader of a file or folder, by file names; ``None`` for tables."""
    for name, read in _READERS.items():
        patterns = SOURCES[name].patterns.split()
        in_folder = path.is_dir() and all(any(path.glob(pattern)) for pattern in patterns)
        if in_folder or patterns == [path.name]:
            return read
    return None


def _numbers(path: Path, count: int, *, separator: str = "tab", every: int = 1) -> pl.DataFrame:
    """Read user, item, rating and optionally time from the first columns, or every second one."""
    kinds = ("user", "item", "rating", "timestamp")[:count]
    columns: Config = {f"{kind}_column": str(1 + every * index) for index, kind in enumerate(kinds)}
    options = RankingData(no_header=True, separator=separator, **columns)
    try:
        return read_interactions_of(path, options)[0]
    except ValueError as error:  # these files have no options
        raise ValueError(str(error).partition("; --")[0]) from None
