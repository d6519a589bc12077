"""Data sets by name or path, as training and evaluation interactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bayescl.checks import check_choice
from bayescl_lab._downloads import data_folder, verify_file
from bayescl_lab.ranking import catalog
from bayescl_lab.ranking.catalog import PUBLISHED, known_folder, required_folder
from bayescl_lab.ranking.filters import numbered_interactions
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.readers.archives import INTER, PACKED, PARQUET, TEXT, table_suffix
from bayescl_lab.ranking.readers.columns import RawInteractions, chosen_columns
from bayescl_lab.ranking.readers.formats import READERS, read_inter, recognised
from bayescl_lab.ranking.readers.table import TableOptions, read_tables, table_header
from bayescl_lab.ranking.splits import LAST, PER_USER, SPLITS, split_interactions

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1
EVALUATION_PARTS = ("test", "validation")
AUTHOR, GIVEN, NONE = "author", "given", "none"

_PARTS = ("train", "test")
_AUTHOR_SPLIT = "author-split"
"""Folder with the split of the paper's first author, within that of MovieLens-100k."""
_TABLE_SUFFIXES = (*TEXT, ".txt", *PARQUET, ".data", ".dat", INTER)
"""Suffixes of files that may hold interactions in a folder."""


def load_interactions(
    data: str,
    *,
    evaluate_on: str = "test",
    split: str | None = None,
    split_seed: int = 0,
    min_rating: float | None = None,
    k_core: int = 0,
    test_data: str | None = None,
    **table: Any,
) -> RankingParts:
    r"""Load a data set as training and evaluation interactions.

    Use ``evaluate_on="validation"`` to choose settings: it evaluates on a tenth of the training
    part, which is held out of training and split off in the same way as the test part (per user if
    the test part was given). The test part stays unseen.

    Args:
        data: a known name (one of :data:`~bayescl_lab.ranking.catalog.PUBLISHED`), or the path of
            a file or folder: MovieLens' ``u.data`` or ``ratings.dat``, a folder with
            ``train.txt`` and ``test.txt`` in LightGCN's format or with ``train.csv`` and
            ``test.csv``, RecBole's ``.inter``, a table as text or Parquet (also as ``.gz``,
            ``.bz2``, ``.xz``, or as the only table of a ``.zip``), or a folder with the files of
            such a table.
        evaluate_on: "test" or "validation".
        split: "per-user" (at random 4:1 from each user), "random" (4:1 from all), "last" (each
            user's last interaction by time), "given" (by the files), "author" (ml-100k, as the
            paper's first author split it) or "none" (everything trains, a test part of the files
            included, and nothing is left to judge by); default: "given" where the files give a
            test part, else "per-user". See :func:`~bayescl_lab.ranking.splits.split_interactions`
            for users with too few interactions.
        split_seed: seed of the split; deliberately not the seed of a run.
        min_rating: the lowest rating that counts as an interaction; default: all count.
        k_core: keep only users and items with at least this many interactions with each other.
        test_data: a second table with the test part.
        **table: how a table is read, see
            :class:`~bayescl_lab.ranking.readers.table.TableOptions`. Ratings are read only with
            a ``min_rating``, times only if the split is "last".

    Returns:
        Training and evaluation part, with a report of what was left out or merged. All remaining
        users and items have the same row and column in both, whichever part is evaluated.
        Evaluation pairs whose user or item is unknown to training are kept, since published figures
        count them, and are reported.

    Raises:
        ValueError: if the name is unknown, a file is missing or damaged (naming its line), or
            options contradict each other or the data.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "bought.csv"
        >>> pairs = [f"{user},{item}" for user in "abc" for item in range(5)]
        >>> _ = file.write_text("\n".join(["customer,product", *pairs]))
        >>> parts = load_interactions(str(file), user_column="customer", item_column="product")
        >>> parts.train.num_interactions, parts.evaluation.num_interactions
        (12, 3)
        >>> parts.train.user_ids.tolist(), parts.train.item_ids.tolist()
        (['a', 'b', 'c'], [0, 1, 2, 3, 4])
    """
    check_choice("evaluate_on", evaluate_on, EVALUATION_PARTS)
    if split is not None:
        check_choice("split", split, (*SPLITS, GIVEN, AUTHOR, NONE))
    options = TableOptions(ratings=min_rating is not None, times=split == LAST, **table)
    author = split == AUTHOR
    raw = _author_split(data) if author else read_interactions(data, options, test_data)
    given = raw.test is not None
    if given and split in SPLITS:
        raise ValueError(f"{data} comes with a test part: split must be 'given', got {split!r}")
    if split == GIVEN and not given:
        raise ValueError(f"{data} comes without a test part: split cannot be 'given'")
    train, test, report = numbered_interactions(raw, min_rating=min_rating, k_core=k_core)
    if split == NONE:
        if evaluate_on != "test":
            raise ValueError("split 'none' leaves no validation part: evaluate on 'test'")
        everything = train if test is None else train.joined(test)
        nothing = everything.subset(np.empty(0, dtype=np.int64))
        return RankingParts(everything, nothing, evaluate_on, report)
    kind = PER_USER if given or split is None else split
    if test is None:
        train, test = split_interactions(train, kind, share=TEST_SHARE, seed=split_seed)
    unseen = None
    if evaluate_on == "validation":
        unseen = test
        train, test = split_interactions(
            train, kind, share=VALIDATION_SHARE, seed=split_seed, draw=1
        )
    return RankingParts(train, test, evaluate_on, {**report, **_unknown(train, test)}, unseen)


def _unknown(train: Interactions, evaluation: Interactions) -> dict[str, int]:
    """Number of evaluation pairs with a user or an item unknown to training."""
    users, items = evaluation.pairs()
    no_user = np.diff(train.matrix.indptr)[users] == 0
    no_item = np.bincount(train.matrix.indices, minlength=train.num_items)[items] == 0
    counts = {
        "evaluation pairs of a user unknown to training": int(no_user.sum()),
        "evaluation pairs with an item unknown to training": int(no_item.sum()),
    }
    return {phrase: count for phrase, count in counts.items() if count}


def read_interactions(
    data: str, options: TableOptions | None = None, test_data: str | None = None
) -> RawInteractions:
    """Read a known data set from the data folder, or a file or folder given by its path.

    Raises:
        ValueError: if there is no such data set, options do not apply to it, or its files are
            damaged.
    """
    options, path, known = options or TableOptions(), Path(data), data in READERS
    if not (known or path.exists()):
        raise ValueError(
            f"no data set is called {data!r}; known are {', '.join(READERS)}, "
            "or give the path of a file or folder"
        )
    reader = READERS[data] if known else recognised(path)
    if reader is not None:
        options.refuse(data)
        if test_data is not None:
            raise ValueError(f"{data} has a fixed format: test_data is for tables")
        if known:
            return reader(required_folder(data), data)
        return reader(path if path.is_dir() else path.parent, path.resolve().name)
    files, test = _tables(path)
    if test_data is not None:
        if test is not None:
            raise ValueError(f"{path} has a test part: test_data is for single files")
        test = Path(test_data)
    read_files = read_inter if files[0].suffix == INTER else read_tables
    return read_files(files, test, options, name=path.resolve().name)


def guessed_columns(data: str, options: TableOptions) -> dict[str, str]:
    """The columns that :func:`read_interactions` would guess; reads only a table's header.

    Returns:
        The guessed column names for "user", "item", "rating" and "timestamp" that differ from these
        words; empty for data sets that are not tables.

    Raises:
        ValueError: if the table's header cannot be read or understood.
    """
    path, wanted = Path(data), options.columns
    unnamed = [kind for kind, name in wanted.items() if name is None]
    if data in READERS or not (unnamed and path.exists()) or recognised(path):
        return {}
    table = _tables(path)[0][0]
    columns = chosen_columns(table_header(table, options), wanted, table)
    return {kind: columns[kind] for kind in unnamed if columns[kind] != kind}


def source_files(data: str, test_data: str | None = None) -> tuple[Path, ...]:
    """The existing files that :func:`read_interactions` reads for a name or path."""
    path = Path(data)
    files = [Path(name) for name in (data, test_data) if name and name not in READERS]
    if data in READERS:
        if folder := known_folder(data):
            files += [file for mark in PUBLISHED[data].patterns for file in folder.glob(mark)]
        files += (data_folder() / data / _AUTHOR_SPLIT).glob("*.csv")
    elif path.is_dir():
        files += [file for file in path.glob("[!.]*") if file.suffix in _TABLE_SUFFIXES]
        files += _parts(path)
    return tuple(sorted({file for file in files if file.is_file()}))


def _author_split(data: str) -> RawInteractions:
    """The files of the paper's first author: user, item and rating, a header above them."""
    if data != "ml-100k":
        raise ValueError(f"split 'author' exists only for ml-100k, got {data}")
    train, test = (data_folder() / data / _AUTHOR_SPLIT / f"{part}.csv" for part in _PARTS)
    if not (train.is_file() and test.is_file()):
        raise ValueError(
            f"split 'author' needs {train} and test.csv beside it, with columns user, item and "
            "rating, as in the repositories of the paper's first author (github.com/liubin06)"
        )
    options = TableOptions(user_column="user", item_column="item", rating_column="rating")
    return read_tables([train], test, options, name="ml-100k, author split")


def _tables(path: Path) -> tuple[list[Path], Path | None]:
    """The files of the table at a path, and of its test part if they come with one.

    Raises:
        ValueError: if a folder holds no table, or text and Parquet.
    """
    if not path.is_dir():
        return [path], None
    for suffix in (*TEXT, *PARQUET):
        for packing in ("", *PACKED):
            train, test = (path / f"{part}{suffix}{packing}" for part in _PARTS)
            if train.is_file() and test.is_file():
                return [train], test
    inter = list(path.glob(f"*{INTER}"))
    parts = inter if len(inter) == 1 else _parts(path)
    if not parts:
        raise ValueError(
            f"{path} has no interactions: it must hold train.txt and test.txt, train.csv and "
            f"test.csv, u.data, ratings.dat, one {INTER} file, or the parts of one table"
        )
    if len({table_suffix(file) in PARQUET for file in parts}) > 1:
        raise ValueError(
            f"{path} holds both text and Parquet tables: name one file, or a folder with one kind"
        )
    return parts, None


def _parts(folder: Path) -> list[Path]:
    """The files of a table that is split over several, without those in hidden folders."""
    return sorted(
        file
        for file in folder.rglob("*")
        if table_suffix(file) in (*TEXT, *PARQUET)
        and file.is_file()
        and not any(part[0] in "._" for part in file.relative_to(folder).parts)
    )


def verify_interactions(name: str) -> list[str]:
    """Compare a known data set in the data folder with the published one.

    Archives and files must match their published checksums, if any; everything must be readable;
    and the numbers of users, items and interactions must be as published.

    Returns:
        One line per finding: the counts, the files whose checksum matches, and what reading left
        out or merged.

    Raises:
        ValueError: if the data set is missing, damaged or a different one.
    """
    source = next(source for source in catalog.SOURCES if source.name == name)
    published, folder = PUBLISHED[name], required_folder(name)
    checksums = {data_folder() / name / file.filename: file.checksum for file in source.files}
    checksums |= {folder / file: checksum for file, checksum in published.checksums.items()}
    there = [path for path in checksums if path.is_file()]
    for path in there:
        verify_file(path, checksums[path])
    train, test, report = numbered_interactions(read_interactions(name))
    parts = [part.num_interactions for part in (train, test) if part is not None]
    counts = {"users": train.num_users, "items": train.num_items, "interactions": sum(parts)}
    for what, count in counts.items():
        expected = getattr(published, what)
        if expected not in (None, count):
            raise ValueError(f"{folder} is not {name} as published: {expected} {what}, got {count}")
    pairs = " + ".join(f"{count:,}" for count in parts)
    return [
        f"{folder} is {name} as published: {train.num_users:,} users, {train.num_items:,} items, "
        f"{pairs} interactions",
        *(f"{path.name} is the published file (its checksum matches)" for path in there),
        *(f"{count:,} {phrase}" for phrase, count in report.items()),
    ]
