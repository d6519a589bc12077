"""Yahoo!R3: ratings of songs, users' own choice and songs drawn at random, merged.

Yahoo gives the files to those who ask (Webscope R3): two text files whose names end in
``-train.txt`` and ``-test.txt``, lines of user, song and rating separated by tabs. Both parts are
read as one set of ratings, as in the paper, and split anew.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl.recsys.readers.delimited import read_delimited
from bayescl.recsys.readers.raw import RawInteractions

PARTS = ("train", "test")
_COLUMNS = {"user": 0, "item": 1, "rating": 2}


def yahoo_files(folder: Path) -> tuple[Path, ...]:
    """The two files in a folder by the ends of their names; fewer where they are missing."""
    found = []
    for part in PARTS:
        matching = sorted(folder.glob(f"ydata-ymusic-rating-study*-{part}.txt"))
        plain = folder / f"{part}.txt"
        found += matching[:1] or ([plain] if plain.is_file() else [])
    return tuple(found)


def read_yahoo_r3(folder: Path, *, name: str) -> RawInteractions:
    """Read both files of a folder as one set of ratings.

    Raises:
        ValueError: if a file is missing, or naming file and line of what is damaged.
    """
    files = yahoo_files(folder)
    if len(files) < len(PARTS):
        raise ValueError(
            f"{folder} must hold both files of Yahoo!R3, whose names end in "
            "-train.txt and -test.txt"
        )
    frames = [
        read_delimited(file, separator="\t", columns=_COLUMNS, header=False, quotes=False)
        for file in files
    ]
    return RawInteractions(train=pl.concat(frames), name=name)
