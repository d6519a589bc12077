"""Rows with unequal numbers of positives and hard negatives, as columns of equal length."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datasets import Dataset

_LABEL_COLUMNS = ("label", "labels", "score", "scores")
"""Columns that the trainer passes to the loss as labels."""


def ranking_dataset(dataset: Dataset, *, num_positives: int = 1, scores: str = "scores") -> Dataset:
    """Return a data set with one text per cell, and check every row.

    The first column holds anchors, the next ``num_positives`` columns positives, and all further
    columns hard negatives. A cell holds a text, a list of texts, or ``None``. Lists become columns,
    and rows with fewer texts are filled with empty texts, which
    :class:`~bayescl.integrations.sentence_transformers.ContrastiveRankingLoss` leaves out.

    Args:
        dataset: Data set with at least two columns of texts, and at most one label column.
        num_positives: Number of columns of positives in ``dataset``. Default: 1.
        scores: Column of lists with one score per document of the row, in the order of the cells.
            ``None`` and NaN mean that a document has no score. Cells without a text may be left
            out. Default: ``"scores"``, as ``mine_hard_negatives`` writes.

    Returns:
        Columns ``anchor``, ``positive``, ``positive_2``, ..., ``negative``, ``negative_2``, ... and
        the label column. Lists of scores are filled with NaN. Other label columns are unchanged.

    Raises:
        ValueError: if a row has no anchor or no positive, a cell holds something else, or a list of
            scores has the wrong length. The message names the row, counted from 0.

    Example:
        >>> from datasets import Dataset
        >>> rows = Dataset.from_dict(
        ...     {"question": ["a", "b"], "answer": ["c", "d"], "wrong": [["e", "f"], None]}
        ... )
        >>> ranking_dataset(rows)[1]
        {'anchor': 'b', 'positive': 'd', 'negative': '', 'negative_2': ''}
    """
    names = dataset.column_names
    labels = [name for name in names if name in (*_LABEL_COLUMNS, scores)]
    texts = [name for name in names if name not in labels]
    if len(labels) > 1:
        raise ValueError(f"dataset must have one label column, got {', '.join(labels)}")
    if len(texts) <= num_positives:
        raise ValueError(
            f"dataset must have at least {1 + num_positives} columns of texts, got {len(texts)}"
        )
    ends = {"positive": texts[1 : 1 + num_positives], "negative": texts[1 + num_positives :]}
    widths = {"positive": 1, "negative": 0}
    for number, row in enumerate(dataset):
        for kind, documents in _documents(row, texts[0], ends, scores, number).items():
            widths[kind] = max(widths[kind], len(documents))

    def filled(row: Mapping[str, Any], number: int) -> dict[str, Any]:
        found, values = {"anchor": row[texts[0]]}, []
        for kind, documents in _documents(row, texts[0], ends, scores, number).items():
            documents = documents + [("", math.nan)] * (widths[kind] - len(documents))
            for place, (text, score) in enumerate(documents, 1):
                found[kind if place == 1 else f"{kind}_{place}"] = text
                values.append(score)
        return found | {name: values if name == scores else row[name] for name in labels}

    rows = dataset.map(filled, with_indices=True, remove_columns=names)
    return rows.select_columns(
        [*(name for name in rows.column_names if name not in labels), *labels]
    )


def _documents(
    row: Mapping[str, Any], anchor: str, ends: Mapping[str, Sequence[str]], scores: str, number: int
) -> dict[str, list[tuple[str, float]]]:
    """Return positives and hard negatives of a row, each with its score, without empty texts."""
    cells = {kind: [cell for name in ends[kind] for cell in _cells(row, name)] for kind in ends}
    every = [cell for kind in ends for cell in cells[kind]]
    for name, cell in [(anchor, row[anchor]), *every]:
        if cell is not None and not isinstance(cell, str):
            raise ValueError(f"row {number}: {name} must hold texts, got {cell!r}")
    if not row[anchor]:
        raise ValueError(f"row {number}: {anchor} is empty")
    if not any(cell for _, cell in cells["positive"]):
        raise ValueError(f"row {number}: {', '.join(ends['positive'])} is empty")
    values = [None] * len(every) if row.get(scores) is None else list(row[scores])
    texts = sum(bool(cell) for _, cell in every)
    if len(values) not in (len(every), texts):
        raise ValueError(
            f"row {number}: {scores} must hold {texts} numbers, one per document, got {len(values)}"
        )
    for value in values:
        is_number = isinstance(value, int | float) and not math.isinf(value)
        if not (value is None or is_number):
            raise ValueError(f"row {number}: {scores} must hold finite numbers, got {value!r}")
    are_whole, given = len(values) == len(every), iter(values)
    found: dict[str, list[tuple[str, float]]] = {}
    for kind, part in cells.items():
        found[kind] = []
        for _, cell in part:
            value = next(given) if cell or are_whole else None
            if cell:
                found[kind].append((cell, math.nan if value is None else float(value)))
    return found


def _cells(row: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    """Return the texts of a cell, each with the name of its column."""
    cell = row[name]
    return [(name, text) for text in (cell if isinstance(cell, list | tuple) else [cell])]
