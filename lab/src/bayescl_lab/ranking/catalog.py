"""Published interactions: files, sizes and downloads.

Only MovieLens is downloaded automatically. Its archives are verified by the SHA-256 of the files of
GroupLens. Users must copy the others themselves, because of their terms of use or because there is
no published checksum.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bayescl_lab._downloads import SOURCES, DataSource, Progress, data_folder, fetch_source

SPLIT = ("train.txt", "test.txt")
"""Files of a split in LightGCN's format."""


@dataclass(frozen=True)
class Published:
    """Published facts about a data set.

    Attributes:
        patterns: Patterns of the names of required files. :data:`SPLIT` is also accepted.
        users: Number of users with interactions.
        items: Number of items with interactions.
        interactions: Number of training and test pairs. ``None`` if sources differ.
    """

    patterns: tuple[str, ...]
    users: int
    items: int
    interactions: int | None


def _published(patterns: str, users: str, items: str, interactions: str) -> Published:
    """Return the published facts about a data set."""
    pairs = int(interactions) if interactions else None
    return Published(tuple(patterns.split()), int(users), int(items), pairs)


_ROWS = files(__package__).joinpath("catalog.csv").read_text(encoding="utf-8").splitlines()
PUBLISHED = {name: _published(*facts) for name, *facts in csv.reader(_ROWS[1:])}
"""Published facts by name."""


def known_folder(name: str) -> Path | None:
    """Return ``<data>/<name>`` or ``<data>/<name>/<name>``, the first that has the files."""
    for patterns in (PUBLISHED[name].patterns, SPLIT):
        for folder in (data_folder() / name, data_folder() / name / name):
            if _has_files(folder, patterns):
                return folder
    return None


def _has_files(folder: Path, patterns: tuple[str, ...]) -> bool:
    """Return whether a folder has a file for each pattern."""
    return all(any(folder.glob(pattern)) for pattern in patterns)


def required_folder(name: str) -> Path:
    """Return the folder of a known data set; raise ``ValueError`` with instructions if missing."""
    if folder := known_folder(name):
        return folder
    source = SOURCES[name]
    fetch = f"`bayescl data fetch {name}` downloads it, " if source.url else ""
    raise ValueError(f"{name} is not in {data_folder() / name}: {fetch}{source.instructions}")


def fetch_interactions(source: DataSource, *, progress: Progress = lambda _: None) -> Path:
    """Download and unpack a data set unless it exists; return its folder."""
    if existing := known_folder(source.name):
        return existing
    fetch_source(source, progress=progress)
    folder = known_folder(source.name)
    if folder is None:
        raise ValueError(f"the archive of {source.name} lacks its files")
    return folder
