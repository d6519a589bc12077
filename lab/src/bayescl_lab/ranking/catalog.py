"""Published interactions: sources, sizes, terms of use, downloads and verification.

Only MovieLens is downloaded automatically. Its archives are verified by the SHA-256 of the files of
GroupLens. Users must copy the others themselves, because of their terms of use or because there is
no published checksum.
"""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from bayescl_lab._downloads import (
    DataSource,
    Progress,
    RemoteFile,
    data_folder,
    extract_archive,
    fetch_source,
)

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


def _source(row: dict[str, str]) -> DataSource:
    """Return the source of a data set."""
    url, checksum = row["url"], f"sha256:{row['sha256']}"
    archive = RemoteFile(url, url.rpartition("/")[2], int(row["size"] or 0), checksum)
    texts = (row[name] for name in ("terms", "homepage", "instructions"))
    archives = (archive,) if url else ()
    return DataSource(row["name"], "interactions", row["title"], archives, *texts)


def _published(row: dict[str, str]) -> Published:
    """Return the published facts about a data set."""
    pairs = int(row["interactions"]) if row["interactions"] else None
    return Published(tuple(row["patterns"].split()), int(row["users"]), int(row["items"]), pairs)


_TEXT = files(__package__).joinpath("catalog.csv").read_text(encoding="utf-8")
_ROWS = [*csv.DictReader(_TEXT.splitlines())]
SOURCES = tuple(map(_source, _ROWS))
"""Sources in the order of tables."""

PUBLISHED = {row["name"]: _published(row) for row in _ROWS}
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
    source = next(source for source in SOURCES if source.name == name)
    fetch = f"`bayescl data fetch {name}` downloads it, " if source.files else ""
    raise ValueError(f"{name} is not in {data_folder() / name}: {fetch}{source.instructions}")


def fetch_interactions(source: DataSource, *, progress: Progress = lambda _: None) -> Path:
    """Download and unpack a data set unless it exists; return its folder."""
    if existing := known_folder(source.name):
        return existing
    archive = fetch_source(source, progress=progress)
    staging = archive.with_name(f".{archive.stem}")
    shutil.rmtree(staging, ignore_errors=True)  # files of an interrupted call
    root = extract_archive(archive, staging) / source.name
    if not _has_files(root, PUBLISHED[source.name].patterns):
        raise ValueError(f"the archive of {source.name} lacks its files")
    folder = root.rename(archive.with_name(source.name))
    shutil.rmtree(staging)
    return folder
