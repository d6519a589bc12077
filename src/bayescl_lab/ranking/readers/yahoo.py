"""Yahoo!R3: ratings of songs that users chose, and of songs drawn at random, merged.

Yahoo provides the files on request (Webscope R3): two text files whose names end in ``-train.txt``
(chosen songs, 15,400 users) and ``-test.txt`` (songs drawn at random, the 5,400 of these users who
took part), lines of user, song and rating separated by tabs. The paper's table has 5,400 users and
182,000 interactions: both parts merged for those users, split again. The rows of other users are
left out and counted.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl_lab.ranking.readers.lines import read_separated
from bayescl_lab.ranking.readers.raw import RawInteractions

MARKS = ("*train.txt", "*test.txt")
_COLUMNS = {"user": 0, "item": 1, "rating": 2}


def read_yahoo_r3(folder: Path, *, name: str) -> RawInteractions:
    """Read both files of a folder as one set of ratings.

    Raises:
        ValueError: if a file is missing or damaged; the message names the file and the line.
    """
    files = [sorted(folder.glob(mark)) for mark in MARKS]
    if not all(len(found) == 1 for found in files):
        raise ValueError(
            f"{folder} must hold both files of Yahoo!R3, with names that end in train.txt and in "
            "test.txt"
        )
    frames = [
        read_separated(file, separator="\t", columns=_COLUMNS, whole_ids=True) for [file] in files
    ]
    chosen, drawn = frames
    kept = chosen.join(drawn.select("user").unique(), on="user", how="semi")
    left_out = chosen.height - kept.height
    report = {"ratings of users without songs drawn at random left out": left_out}
    return RawInteractions(
        train=pl.concat([kept, drawn]), name=name, report=report if left_out else {}
    )
