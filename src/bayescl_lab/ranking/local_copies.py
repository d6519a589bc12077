"""Local copies of published interactions: fetch them and compare them with the original."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bayescl_lab._downloads import (
    DataSource,
    Progress,
    data_folder,
    extract_archive,
    fetch_source,
    verify_file,
)
from bayescl_lab.ranking.catalog import PUBLISHED, SOURCES
from bayescl_lab.ranking.filters import numbered_interactions
from bayescl_lab.ranking.sources import TableOptions, absent, known_folder, marks, read_interactions


@dataclass(frozen=True)
class VerifiedCopy:
    """Contents of a verified copy.

    Attributes:
        folder: where it is.
        files: names of the files whose checksum matched.
        users: users with an interaction.
        items: items with an interaction.
        train: pairs of the training part, or all pairs if the files have no test part.
        test: pairs of the given test part, or None.
        report: what was left out or merged when reading, as phrase and count.
    """

    folder: Path
    files: tuple[str, ...]
    users: int
    items: int
    train: int
    test: int | None
    report: Mapping[str, int]


def fetch_interactions(source: DataSource, *, progress: Progress | None = None) -> Path:
    """Download and unpack a data set into the data folder, unless it exists.

    Args:
        source: one of :data:`~bayescl_lab.ranking.catalog.SOURCES`.
        progress: called with the bytes done and the total.

    Returns:
        The folder with its files.

    Raises:
        ValueError: if there is nothing to download, the download fails or is damaged.
    """
    there = known_folder(source.name)
    if there is not None:
        return there
    folder = data_folder() / source.name
    for archive in fetch_source(source, progress=progress):
        staging = folder / f".{archive.stem}"
        shutil.rmtree(staging, ignore_errors=True)  # what an interrupted call left
        extract_archive(archive, staging)
        # Archives have a folder of the data set's name at their root; what is in there goes
        # where users put files by hand. What is there already stays, and the files that the
        # data set is known by come last, so that an interrupted call leaves no half of it.
        needed = {
            path for mark in marks(source.name) for path in (staging / source.name).glob(mark)
        }
        for path in sorted((staging / source.name).glob("*"), key=needed.__contains__):
            if not (folder / path.name).exists():
                path.rename(folder / path.name)
        shutil.rmtree(staging)
    if known_folder(source.name) is None:
        raise ValueError(f"the archive of {source.name} lacks its files")
    return folder


def verify_interactions(name: str) -> VerifiedCopy:
    """Compare a known data set in the data folder with the published one.

    Archives and files must match their published checksums, if any; everything must be readable;
    and the numbers of users, items and interactions must be as published.

    Args:
        name: one of the names of :data:`~bayescl_lab.ranking.catalog.SOURCES`.

    Raises:
        ValueError: if the data set is missing, damaged or a different one.
    """
    source = next(source for source in SOURCES if source.name == name)
    published = PUBLISHED[name]
    folder = known_folder(name)
    if folder is None:
        raise ValueError(absent(name))
    checksums = {data_folder() / name / file.filename: file.checksum for file in source.files}
    checksums |= {folder / file: checksum for file, checksum in published.checksums}
    right = []
    for path, checksum in checksums.items():
        if path.is_file():
            verify_file(path, checksum)
            right.append(path.name)
    train, test, report = numbered_interactions(read_interactions(name, TableOptions()))
    found = {
        "users": (train.num_users, published.users),
        "items": (train.num_items, published.items),
        "interactions": (
            train.num_interactions + (0 if test is None else test.num_interactions),
            published.interactions,
        ),
    }
    for what, (count, expected) in found.items():
        if expected is not None and count != expected:
            raise ValueError(f"{folder} is not {name} as published: {expected} {what}, got {count}")
    return VerifiedCopy(
        folder=folder,
        files=tuple(right),
        users=train.num_users,
        items=train.num_items,
        train=train.num_interactions,
        test=None if test is None else test.num_interactions,
        report=report,
    )
