"""Sources, sizes and terms of the data sets of the ranking table.

Only MovieLens is fetched automatically; its archives are checked against the SHA-256 of the files
that GroupLens serves. Users put the others in place themselves, because of their owners' terms or
for want of a copy with a published checksum.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayescl_lab._downloads import DataSource, RemoteFile

_MOVIELENS_TERMS = "research only, cite Harper and Konstan 2015, no redistribution, not commercial"
_GROUPLENS = "https://files.grouplens.org/datasets/movielens"
_LIGHTGCN = "https://github.com/gusye1234/LightGCN-PyTorch"


def _lightgcn(name: str, title: str, terms: str, homepage: str) -> DataSource:
    """One of the three data sets that LightGCN's authors split."""
    return DataSource(
        name=name,
        kind="interactions",
        title=title,
        files=(),
        terms=terms,
        homepage=homepage,
        instructions=(
            f"put train.txt and test.txt from data/{name} of {_LIGHTGCN} into the folder {name} "
            "of your data folder, or give --data the path of any folder with the two"
        ),
    )


SOURCES: tuple[DataSource, ...] = (
    DataSource(
        name="ml-100k",
        kind="interactions",
        title="MovieLens-100k: 100,000 ratings of 1,682 films by 943 people",
        files=(
            RemoteFile(
                url=f"{_GROUPLENS}/ml-100k.zip",
                filename="ml-100k.zip",
                size=4_924_029,
                checksum="sha256:50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
            ),
        ),
        terms=_MOVIELENS_TERMS,
        homepage="https://grouplens.org/datasets/movielens/100k/",
        instructions="or put u.data (and u.item, for titles) into the folder ml-100k",
    ),
    DataSource(
        name="ml-1m",
        kind="interactions",
        title="MovieLens-1M: 1,000,209 ratings of 3,706 films by 6,040 people",
        files=(
            RemoteFile(
                url=f"{_GROUPLENS}/ml-1m.zip",
                filename="ml-1m.zip",
                size=5_917_549,
                checksum="sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
            ),
        ),
        terms=_MOVIELENS_TERMS,
        homepage="https://grouplens.org/datasets/movielens/1m/",
        instructions="or put ratings.dat (and movies.dat, for titles) into the folder ml-1m",
    ),
    DataSource(
        name="yahoo-r3",
        kind="interactions",
        title="Yahoo!R3: ratings of 1,000 songs by 5,400 people, songs chosen and songs drawn",
        files=(),
        terms="non-commercial research after an agreement with Yahoo, no redistribution",
        homepage="https://webscope.sandbox.yahoo.com/catalog.php?datatype=r",
        instructions=(
            "ask Yahoo Webscope for R3 and put ydata-ymusic-rating-study-v1_0-train.txt and "
            "-test.txt into the folder yahoo-r3 of your data folder"
        ),
    ),
    _lightgcn(
        "yelp2018",
        "Yelp2018, LightGCN's split: 1,561,406 visits of 31,668 people to 38,048 businesses",
        "Yelp data set terms: academic, not commercial, no redistribution",
        "https://business.yelp.com/data/resources/open-dataset/",
    ),
    _lightgcn(
        "gowalla",
        "Gowalla, LightGCN's split: 1,027,370 visits of 29,858 people to 40,981 places",
        "cite Cho, Myers and Leskovec 2011",
        "https://snap.stanford.edu/data/loc-gowalla.html",
    ),
    _lightgcn(
        "amazon-book",
        "Amazon-Book, LightGCN's split: 2,984,108 reviews of 91,599 books by 52,643 people",
        "research, cite He and McAuley 2016",
        "https://jmcauley.ucsd.edu/data/amazon/",
    ),
)


@dataclass(frozen=True)
class Published:
    """Published sizes and checksums of a data set.

    Attributes:
        users: users with an interaction.
        items: items with an interaction.
        interactions: all pairs, training and test together; None if sources differ.
        checksums: digests of single files, by name.
    """

    users: int
    items: int
    interactions: int | None
    checksums: tuple[tuple[str, str], ...] = ()


PUBLISHED: dict[str, Published] = {
    "ml-100k": Published(
        943,
        1_682,
        100_000,
        (
            (
                "u.data",
                "sha256:06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
            ),
        ),
    ),
    "ml-1m": Published(
        6_040,
        3_706,
        1_000_209,
        (
            (
                "ratings.dat",
                "sha256:506d64ca44484487c11dc2d9a28de5c54948213e6b96285e298afe28d6ea4e0f",
            ),
        ),
    ),
    "yahoo-r3": Published(5_400, 1_000, None),
    "yelp2018": Published(31_668, 38_048, 1_561_406),
    "gowalla": Published(29_858, 40_981, 1_027_370),
    "amazon-book": Published(52_643, 91_599, 2_984_108),
}
"""By name. ``u.data`` and ``ratings.dat`` are always the same files; the LightGCN files are around
with different line ends, so only their content is compared."""
