"""Data sets by name or path, as training and evaluation interactions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayescl_lab._fields import check_choice
from bayescl_lab._types import Config
from bayescl_lab.ranking.catalog import known_names, required_folder
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.filters import numbered_interactions
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.readers.formats import recognized
from bayescl_lab.ranking.readers.table import RawInteractions, opened_table, read_tables
from bayescl_lab.ranking.splits import split_interactions

_TEST_SHARE, _VALIDATION_SHARE = 0.2, 0.1


def load_interactions(data: str, *, evaluate_on: str = "test", **options: Any) -> RankingParts:
    r"""Load a data set as training and evaluation interactions.

    Use ``evaluate_on="validation"`` to choose settings. The evaluation split is then held out of
    the training split. It is drawn with share 0.1 like the test split, or per user if the test
    split was given. The test split is not used.

    Args:
        data: Known name (see :func:`~bayescl_lab.ranking.catalog.known_names`), or the path of
            a file or folder: MovieLens' ``u.data`` or ``ratings.dat``, a folder with ``train.txt``
            and ``test.txt`` in LightGCN's format, or a table as text (also as ``.gz``) or Parquet.
        evaluate_on: Part to evaluate on, "test" or "validation".
        **options: Options of :class:`~bayescl_lab.ranking.data.RankingData`. For the kinds of
            splits, see :func:`~bayescl_lab.ranking.splits.split_interactions`.

    Returns:
        Training and evaluation split, with a report of skipped and merged data. Users and items
        have the same rows and columns in all splits. Evaluation pairs with users or items unknown
        to training are kept and reported, because published scores include them.

    Raises:
        ValueError: if the name is unknown, a file is missing or damaged (the message names the
            line), or options contradict each other or the data.

    Example:
        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "bought.csv"
        >>> pairs = [f"{user},{item}" for user in "abc" for item in range(5)]
        >>> _ = file.write_text("\n".join(["customer,product", *pairs]))
        >>> parts = load_interactions(str(file), user_column="customer", item_column="product")
        >>> parts.train.num_interactions, parts.evaluation.num_interactions
        (12, 3)
    """
    check_choice("evaluate_on", evaluate_on, ("test", "validation"))
    settings = RankingData(data, **options)
    split = settings.split
    raw = read_interactions(settings)
    given = raw.test is not None
    if given and split not in (None, "given", "none"):
        raise ValueError(f"{data} has a test split: split must be 'given' or 'none', got {split!r}")
    if split == "given" and not given:
        raise ValueError(f"{data} has no test split: split cannot be 'given'")
    ratings: Config = {"min_rating": settings.min_rating, "sum_ratings": settings.sum_ratings}
    train, test, report = numbered_interactions(raw, **ratings)
    if split == "none":
        if evaluate_on != "test":
            raise ValueError("split 'none' leaves no validation split: evaluate_on must be 'test'")
        everything = train if test is None else train.joined(test)
        return RankingParts(everything, everything.subset(slice(0)), evaluate_on, report)
    kind, seed = "per-user" if given or split is None else split, settings.split_seed
    if test is None:
        train, test = split_interactions(train, kind, share=_TEST_SHARE, seed=seed)
    if evaluate_on == "test":
        return RankingParts(train, test, evaluate_on, report)
    train, held_out = split_interactions(train, kind, share=_VALIDATION_SHARE, seed=seed, draw=1)
    return RankingParts(train, held_out, evaluate_on, report, test)


def read_interactions(options: RankingData) -> RawInteractions:
    """Read a known data set from the data folder, or a file or folder given by its path."""
    data, known = options.data, options.data in known_names()
    path = required_folder(data) if known else Path(data)
    if not path.exists():
        raise ValueError(
            f"there is no data set {data!r}; choose {', '.join(known_names())}, "
            "or give the path of a file or folder"
        )
    if read := recognized(path):
        options.refuse(data)
        name = data if known else path.resolve().name
        return read(path if path.is_dir() else path.parent, name)
    if path.is_dir():
        raise ValueError(f"{path} must contain train.txt and test.txt, or u.data, or ratings.dat")
    test = None if options.test_data is None else Path(options.test_data)
    return read_tables(path, test, options, name=path.resolve().name)


def guessed_columns(options: RankingData) -> dict[str, str]:
    """Return the columns that :func:`read_interactions` would guess, from a table's header.

    The keys are "user", "item", "rating" and "timestamp". Columns with exactly these names are left
    out. For a table without a header, a value of the first row is given. The result is empty for
    data sets that are not tables. Raises ``ValueError`` if a column cannot be guessed.
    """
    path = Path(options.data)
    if options.data in known_names() or not path.is_file() or recognized(path):
        return {}
    table, columns = opened_table(path, options)
    first = dict(zip(table.header, table.first, strict=True)) if options.no_header else {}
    return {
        kind: name + (f" (such as {first[name]!r})" if name in first else "")
        for kind, name in columns.items()
        if getattr(options, f"{kind}_column") is None and name != kind
    }
