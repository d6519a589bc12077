"""Yahoo!R3: ratings of songs that users chose, and of songs drawn at random, merged.

Yahoo gives the files to those who ask (Webscope R3): two text files whose names end in
``-train.txt`` (chosen songs, 15,400 users) and ``-test.txt`` (songs drawn at random, the 5,400 of
these users who took part), lines of user, song and rating separated by tabs. The paper's table
has 5,400 users and 182,000 interactions: both parts merged for those users, split anew. The rows
of other users are left out and counted.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl.recsys.readers.columns import common_ids
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
    chosen, drawn = (_with_common_ids(frames, part) for part in range(len(frames)))
    kept = chosen.join(drawn.select("user").unique(), on="user", how="semi")
    left_out = chosen.height - kept.height
    report = {"ratings of users without songs drawn at random left out": left_out}
    return RawInteractions(
        train=pl.concat([kept, drawn]), name=name, report=report if left_out else {}
    )


def _with_common_ids(frames: list[pl.DataFrame], part: int) -> pl.DataFrame:
    """One part with ids of the type that both parts' ids have."""
    return frames[part].with_columns(
        common_ids([frame[name] for frame in frames])[part] for name in ("user", "item")
    )
