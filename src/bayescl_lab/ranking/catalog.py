"""Published interactions: sources, sizes, terms of use, downloads and verification.

Only MovieLens is downloaded automatically. Its archives are verified by the SHA-256 of the files of
GroupLens. Users must copy the others themselves, because of their terms of use or because there is
no published checksum.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bayescl_lab._downloads import (
    DataSource,
    Progress,
    RemoteFile,
    data_folder,
    extract_archive,
    fetch_source,
)

_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_LIGHTGCN = "https://github.com/gusye1234/LightGCN-PyTorch"


def _by_hand(
    name: str, title: str, terms: str, homepage: str, instructions: str = ""
) -> DataSource:
    """Return a data set that users must fetch. Default: LightGCN's split."""
    instructions = instructions or (
        f"put train.txt and test.txt from data/{name} of {_LIGHTGCN} into the folder {name} "
        "of your data folder, or give --data the path of any folder with the two"
    )
    return DataSource(name, "interactions", title, (), terms, homepage, instructions)


def _movielens(name: str, title: str, size: int, checksum: str, files: str) -> DataSource:
    """Return a data set of GroupLens."""
    archive = RemoteFile(f"{_GROUPLENS}/{name}.zip", f"{name}.zip", size, f"sha256:{checksum}")
    terms = "research only, cite Harper and Konstan 2015, no redistribution, not commercial"
    homepage = f"https://grouplens.org/datasets/movielens/{name.removeprefix('ml-')}/"
    instructions = f"or put {files} into the folder {name}"
    return DataSource(name, "interactions", title, (archive,), terms, homepage, instructions)


SOURCES: tuple[DataSource, ...] = (
    _movielens(
        "ml-100k",
        "MovieLens-100k: 100,000 ratings of 1,682 films by 943 people",
        4_924_029,
        "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        "u.data",
    ),
    _movielens(
        "ml-1m",
        "MovieLens-1M: 1,000,209 ratings of 3,706 films by 6,040 people",
        5_917_549,
        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        "ratings.dat, or train.txt and test.txt of a split,",
    ),
    _by_hand(
        "yahoo-r3",
        "Yahoo!R3: ratings of 1,000 songs by 5,400 people, songs chosen and songs drawn",
        "non-commercial research after an agreement with Yahoo, no redistribution",
        "https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
        "ask Yahoo Webscope for R3 and put ydata-ymusic-rating-study-v1_0-train.txt and "
        "-test.txt into the folder yahoo-r3 of your data folder",
    ),
    _by_hand(
        "yelp2018",
        "Yelp2018, LightGCN's split: 1,561,406 visits of 31,668 people to 38,048 businesses",
        "Yelp data set terms: academic, not commercial, no redistribution",
        "https://business.yelp.com/data/resources/open-dataset/",
    ),
    _by_hand(
        "gowalla",
        "Gowalla, LightGCN's split: 1,027,370 visits of 29,858 people to 40,981 places",
        "cite Cho, Myers and Leskovec 2011",
        "https://snap.stanford.edu/data/loc-gowalla.html",
    ),
)


@dataclass(frozen=True)
class Published:
    """Published facts about a data set.

    Attributes:
        patterns: Patterns of the names of required files. ``train.txt`` and ``test.txt`` in
            LightGCN's format, with another split, are also accepted.
        users: Number of users with interactions.
        items: Number of items with interactions.
        interactions: Number of training and test pairs. ``None`` if sources differ.
        checksums: Digests of single files by name.
    """

    patterns: tuple[str, ...]
    users: int
    items: int
    interactions: int | None
    checksums: Mapping[str, str] = field(default_factory=dict)


_U_DATA = "sha256:06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490"
_RATINGS_DAT = "sha256:506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f"
SPLIT = ("train.txt", "test.txt")
"""Files of a split in LightGCN's format."""
_YAHOO = "ydata-ymusic*"

PUBLISHED: dict[str, Published] = {
    "ml-100k": Published(("u.data",), 943, 1_682, 100_000, {"u.data": _U_DATA}),
    "ml-1m": Published(("ratings.dat",), 6_040, 3_706, 1_000_209, {"ratings.dat": _RATINGS_DAT}),
    "yahoo-r3": Published((f"{_YAHOO}-train.txt", f"{_YAHOO}-test.txt"), 5_400, 1_000, None),
    "yelp2018": Published(SPLIT, 31_668, 38_048, 1_561_406),
    "gowalla": Published(SPLIT, 29_858, 40_981, 1_027_370),
}
"""Published facts by name. LightGCN's files have no checksums, because line ends differ."""


def known_folder(name: str) -> Path | None:
    """Return ``<data folder>/<name>``, or its subfolder of that name, if it has the files."""
    for patterns in (PUBLISHED[name].patterns, SPLIT):
        for place in (data_folder() / name, data_folder() / name / name):
            if all(any(place.glob(pattern)) for pattern in patterns):
                return place
    return None


def required_folder(name: str) -> Path:
    """Return the folder of a known data set; raise ``ValueError`` with instructions if missing."""
    if folder := known_folder(name):
        return folder
    source = next(source for source in SOURCES if source.name == name)
    fetch = f"`bayescl data fetch {name}` downloads it, " if source.files else ""
    raise ValueError(f"{name} is not in {data_folder() / name}: {fetch}{source.instructions}")


def fetch_interactions(source: DataSource, *, progress: Progress | None = None) -> Path:
    """Download and unpack a data set unless it exists; return its folder."""
    if existing := known_folder(source.name):
        return existing
    folder = data_folder() / source.name
    for archive in fetch_source(source, progress=progress):
        staging = folder / f".{archive.stem}"
        shutil.rmtree(staging, ignore_errors=True)  # files of an interrupted call
        extract_archive(archive, staging)
        # Move the files of the archive to the folder where users would copy them. Existing files
        # stay. Required files come last, so an interrupted call leaves no partial data set.
        root = staging / source.name
        needed = {path for mark in PUBLISHED[source.name].patterns for path in root.glob(mark)}
        for path in sorted(root.glob("*"), key=needed.__contains__):
            if not (folder / path.name).exists():
                path.rename(folder / path.name)
        shutil.rmtree(staging)
    if known_folder(source.name) is None:
        raise ValueError(f"the archive of {source.name} lacks its files")
    return folder
