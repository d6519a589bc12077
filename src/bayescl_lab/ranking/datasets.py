"""Data sets by name or path, as training and evaluation interactions."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from bayescl.checks import check_choice
from bayescl_lab.ranking.filters import numbered_interactions
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.sources import TableOptions, read_interactions
from bayescl_lab.ranking.splits import LAST, PER_USER, SPLITS, split_interactions

TEST_SHARE = 0.2
VALIDATION_SHARE = 0.1
EVALUATION_PARTS = ("test", "validation")
AUTHOR, GIVEN, NONE = "author", "given", "none"


def load_interactions(
    data: str,
    *,
    evaluate_on: str = "test",
    split: str | None = None,
    split_seed: int = 0,
    user_column: str | None = None,
    item_column: str | None = None,
    rating_column: str | None = None,
    timestamp_column: str | None = None,
    min_rating: float | None = None,
    k_core: int = 0,
    separator: str | None = None,
    test_data: str | None = None,
) -> RankingParts:
    r"""Load a data set as training and evaluation interactions.

    Use ``evaluate_on="validation"`` to choose settings: it evaluates on a tenth of the training
    part, which is held out of training and split off in the same way as the test part (per user if
    the test part was given). The test part stays unseen.

    Args:
        data: a known name (see :func:`bayescl_lab.ranking.sources.known_data_sets`), or the path of
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
        user_column: the table's column of users; default: "user", "user_id", "userId" and the
            like; see :mod:`bayescl_lab.ranking.readers.naming`.
        item_column: the table's column of items; default: likewise.
        rating_column: the table's column of ratings; default: "rating" and the like, read only with
            a ``min_rating``.
        timestamp_column: the table's column of times; default: "timestamp" and the like, read only
            if the split is "last".
        min_rating: the lowest rating that counts as an interaction; default: all count.
        k_core: keep only users and items with at least this many interactions with each other.
        separator: the table's separator; default: detected.
        test_data: a second table with the test part.

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
    options = table_options(
        split=split,
        user_column=user_column,
        item_column=item_column,
        rating_column=rating_column,
        timestamp_column=timestamp_column,
        min_rating=min_rating,
        separator=separator,
        test_data=test_data,
    )
    raw = read_interactions(data, options, author_split=split == AUTHOR)
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


def table_options(**reading: Any) -> TableOptions:
    """The arguments of :func:`load_interactions` about tables; others are ignored.

    Example:
        >>> table_options(user_column="who", split="last", k_core=5).columns()
        {'user': 'who', 'item': None, 'timestamp': None}
    """
    names = {field.name for field in fields(TableOptions)}
    given = {name: value for name, value in reading.items() if name in names}
    needed = reading.get("min_rating") is not None, reading.get("split") == LAST
    return TableOptions(**given, ratings=needed[0], times=needed[1])


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
