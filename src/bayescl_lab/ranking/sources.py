"""Find the reader for a data set's name, a file or a folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bayescl_lab._downloads import data_folder
from bayescl_lab.ranking.catalog import SOURCES
from bayescl_lab.ranking.readers.lightgcn import read_lightgcn
from bayescl_lab.ranking.readers.movielens import read_ml_1m, read_ml_100k
from bayescl_lab.ranking.readers.naming import chosen_columns, guesses
from bayescl_lab.ranking.readers.packed import PACKED, table_suffix
from bayescl_lab.ranking.readers.raw import RawInteractions
from bayescl_lab.ranking.readers.recbole import SUFFIX as INTER
from bayescl_lab.ranking.readers.recbole import inter_header, read_inter
from bayescl_lab.ranking.readers.table import PARQUET, read_tables, table_header
from bayescl_lab.ranking.readers.yahoo import MARKS as YAHOO_MARKS
from bayescl_lab.ranking.readers.yahoo import read_yahoo_r3

AUTHOR_SPLIT = "author-split"
"""Folder with the split of the paper's first author, within that of MovieLens-100k."""


_TEXT = (".csv", ".tsv")
_TABLE_SUFFIXES = (*_TEXT, ".txt", *PARQUET, ".data", ".dat", INTER)
"""Suffixes of files that may hold interactions in a folder."""


@dataclass(frozen=True)
class TableOptions:
    """Options about a table; None for automatic detection.

    Attributes:
        user_column: the column of users; else guessed from its name.
        item_column: the column of items; else guessed.
        rating_column: the column of ratings; else guessed, and read only if ratings count.
        timestamp_column: the column of times; else guessed, and read only if times count.
        separator: separator of values; else detected from the first line.
        test_data: a second table, the test part.
        ratings: whether ratings are needed.
        times: whether timestamps are needed.
    """

    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None
    timestamp_column: str | None = None
    separator: str | None = None
    test_data: str | None = None
    ratings: bool = False
    times: bool = False

    def columns(self) -> dict[str, str | None]:
        """The columns to read, with their names if given."""
        columns = {"user": self.user_column, "item": self.item_column}
        if self.ratings or self.rating_column is not None:
            columns["rating"] = self.rating_column
        if self.times or self.timestamp_column is not None:
            columns["timestamp"] = self.timestamp_column
        return columns

    def refuse(self, what: str) -> None:
        """Refuse options about a table for other formats."""
        given = [name for name, value in asdict(self).items() if value not in (None, False)]
        given = [name for name in given if name not in ("ratings", "times")]
        if given:
            raise ValueError(f"{what} has fixed columns: {given[0]} is for tables")


def known_data_sets() -> tuple[str, ...]:
    """Names that :func:`read_interactions` knows."""
    return tuple(_KNOWN)


def read_interactions(
    data: str, options: TableOptions, *, author_split: bool = False
) -> RawInteractions:
    """Read a known data set from the data folder, or a file or folder given by its path.

    Args:
        data: the name or path.
        options: options about the columns of a table.
        author_split: whether to use the split of the paper's first author (ml-100k).

    Raises:
        ValueError: if there is no such data set, options do not apply to it, or its files are
            damaged.
    """
    if author_split and data != "ml-100k":
        raise ValueError(f"split 'author' exists only for ml-100k, got {data}")
    if data in _KNOWN:
        return _known(data, options, author_split=author_split)
    path = Path(data)
    if path.is_dir():
        return _folder(path, options)
    if path.is_file():
        return _file(path, options)
    known = ", ".join(known_data_sets())
    raise ValueError(
        f"no data set is called {data!r}; known are {known}, or give the path of a file or folder"
    )


def guessed_columns(data: str, options: TableOptions) -> dict[str, str]:
    """The columns that :func:`read_interactions` would guess; reads only a table's header.

    Args:
        data: a name or path.
        options: options about the columns of a table.

    Returns:
        The guessed column names for "user", "item", "rating" and "timestamp" that differ from these
        words; empty for data sets that are not tables.

    Raises:
        ValueError: if there is no such table, or its header cannot be read or understood.
    """
    path, wanted = Path(data), options.columns()
    if data in _KNOWN or None not in wanted.values():
        return {}
    if path.is_dir():
        if any(
            all(any(path.glob(mark)) for mark in known.marks)
            for known in (_YAHOO_BY_ITS_OWN_NAMES, _LIGHTGCN, _ML_100K, _ML_1M)
        ):
            return {}
        pair = _given_pair(path)
        files = [pair[0]] if pair else sorted(path.glob(f"*{INTER}")) or parts_of(path)
        if not files:
            return {}
        path = files[0]
    if not path.is_file() or any(path.name in known.marks for known in (_ML_100K, _ML_1M)):
        return {}
    is_inter = path.suffix == INTER
    header = inter_header(path) if is_inter else table_header(path, options.separator)
    return guesses(wanted, chosen_columns(header, wanted, path))


def source_files(data: str, test_data: str | None = None) -> tuple[Path, ...]:
    """The existing files that :func:`read_interactions` reads for a name or path.

    Args:
        data: the name or path.
        test_data: a second table.
    """
    if data in _KNOWN:
        folder = known_folder(data)
        author = data_folder() / data / AUTHOR_SPLIT
        patterns = marks(data)
        found = [] if folder is None else [file for mark in patterns for file in folder.glob(mark)]
        found += author.glob("*.csv")
    elif Path(data).is_dir():
        found = [
            file
            for file in Path(data).iterdir()
            if file.suffix in _TABLE_SUFFIXES and file.is_file() and not file.name.startswith(".")
        ]
        found += parts_of(Path(data))
    else:
        found = [Path(data)]
    if test_data is not None:
        found.append(Path(test_data))
    return tuple(sorted({file for file in found if file.is_file()}))


def marks(name: str) -> tuple[str, ...]:
    """Patterns of the required files of a known data set."""
    return _KNOWN[name].marks


def known_folder(name: str) -> Path | None:
    """The folder of a known data set's files, or None.

    Either ``<data folder>/<name>``, or a folder of that name in it, as unpacked from an archive.
    """
    for place in (data_folder() / name, data_folder() / name / name):
        if all(any(place.glob(mark)) for mark in marks(name)):
            return place
    return None


def absent(name: str) -> str:
    """The error for a known data set that is not in its folder."""
    source = next(source for source in SOURCES if source.name == name)
    advice = source.instructions
    if source.files:
        advice = f"`bayescl data fetch {name}` downloads it, {advice}"
    return f"{name} is not in {data_folder() / name}: {advice}"


@dataclass(frozen=True)
class _Format:
    """Files that identify a format, and its reader, which takes their folder and a name."""

    marks: tuple[str, ...]
    read: Callable[..., RawInteractions]


_LIGHTGCN = _Format(("train.txt", "test.txt"), read_lightgcn)
_ML_100K = _Format(("u.data",), lambda place, name: read_ml_100k(place / "u.data", name=name))
_ML_1M = _Format(("ratings.dat",), lambda place, name: read_ml_1m(place / "ratings.dat", name=name))
_YAHOO = _Format(YAHOO_MARKS, read_yahoo_r3)
_YAHOO_BY_ITS_OWN_NAMES = _Format(
    ("ydata-ymusic*-train.txt", "ydata-ymusic*-test.txt"), read_yahoo_r3
)

_KNOWN = {
    "ml-100k": _ML_100K,
    "ml-1m": _ML_1M,
    "yahoo-r3": _YAHOO,
    "yelp2018": _LIGHTGCN,
    "gowalla": _LIGHTGCN,
    "amazon-book": _LIGHTGCN,
}


def _known(name: str, options: TableOptions, *, author_split: bool) -> RawInteractions:
    """A data set by its name."""
    options.refuse(name)
    if author_split:
        return _author_split(data_folder() / name / AUTHOR_SPLIT, name)
    folder = known_folder(name)
    if folder is None:
        raise ValueError(absent(name))
    return _KNOWN[name].read(folder, name=name)


def _author_split(folder: Path, name: str) -> RawInteractions:
    """The files of the paper's first author: user, item and rating, a header above them."""
    train, test = folder / "train.csv", folder / "test.csv"
    if not (train.is_file() and test.is_file()):
        raise ValueError(
            f"split 'author' needs {train} and test.csv beside it, with columns user, item and "
            "rating, as in the repositories of the paper's first author (github.com/liubin06)"
        )
    columns: dict[str, str | None] = {"user": "user", "item": "item", "rating": "rating"}
    return read_tables(train, test, columns, name=f"{name}, author split")


def _folder(folder: Path, options: TableOptions) -> RawInteractions:
    """A folder, by the files in it."""
    name = folder.resolve().name
    for known in (_YAHOO_BY_ITS_OWN_NAMES, _LIGHTGCN, _ML_100K, _ML_1M):
        if all(any(folder.glob(mark)) for mark in known.marks):
            options.refuse(str(folder))
            return known.read(folder, name=name)
    if pair := _given_pair(folder):
        if options.test_data is not None:
            raise ValueError(f"{folder} has a test part: test_data is for single files")
        return _tables([pair[0]], pair[1], options, name)
    inter = sorted(folder.glob(f"*{INTER}"))
    if len(inter) == 1:
        return _file(inter[0], options)
    if parts := parts_of(folder):
        test = None if options.test_data is None else Path(options.test_data)
        return _tables(parts, test, options, name)
    raise ValueError(
        f"{folder} has no interactions: it must hold train.txt and test.txt, train.csv and "
        f"test.csv, u.data, ratings.dat, one {INTER} file, or the parts of one table"
    )


def _given_pair(folder: Path) -> tuple[Path, Path] | None:
    """Tables called train and test in a folder."""
    for suffix in (*_TEXT, *PARQUET):
        for packing in ("", *PACKED):
            train, test = (folder / f"{part}{suffix}{packing}" for part in ("train", "test"))
            if train.is_file() and test.is_file():
                return train, test
    return None


def parts_of(folder: Path) -> list[Path]:
    """The files of a table that is split over several, in order of their paths.

    Files in subfolders count too, unless a part of their path begins with a dot or an underscore.

    Raises:
        ValueError: if there are both text and Parquet files.
    """
    found: dict[bool, list[Path]] = {}
    for file in sorted(folder.rglob("*")):
        hidden = any(part[0] in "._" for part in file.relative_to(folder).parts)
        if not hidden and table_suffix(file) in (*_TEXT, *PARQUET) and file.is_file():
            found.setdefault(table_suffix(file) in PARQUET, []).append(file)
    if len(found) > 1:
        raise ValueError(
            f"{folder} holds both text and Parquet tables: name one file, or a folder with one kind"
        )
    return next(iter(found.values()), [])


def _file(path: Path, options: TableOptions) -> RawInteractions:
    """A file, by its name."""
    for known in (_ML_100K, _ML_1M):
        if path.name in known.marks:
            options.refuse(str(path))
            return known.read(path.parent, name=path.name)
    test = None if options.test_data is None else Path(options.test_data)
    if path.suffix == INTER:
        if options.separator is not None:
            raise ValueError(f"{INTER} files are separated by tabs: separator is for tables")
        return read_inter(path, test, options.columns(), name=path.name)
    return _tables([path], test, options, path.name)


def _tables(
    train: Sequence[Path], test: Path | None, options: TableOptions, name: str
) -> RawInteractions:
    """A table in one or several files, and optionally a second one as its test part."""
    return read_tables(train, test, options.columns(), separator=options.separator, name=name)
