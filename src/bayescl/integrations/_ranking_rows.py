"""Positives and hard negatives of a row, from cells with texts or lists of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

LABEL_COLUMNS = ("label", "labels", "score", "scores")
"""Columns that the trainer passes to the loss as labels."""


def documents_of(
    row: Mapping[str, Any], anchor: str, ends: Mapping[str, Sequence[str]], scores: str, number: int
) -> dict[str, list[tuple[str, float]]]:
    """Return positives and hard negatives of a row, each with its score, without empty texts."""
    cells = {kind: [cell for name in ends[kind] for cell in _cells(row, name)] for kind in ends}
    every = [cell for kind in ends for cell in cells[kind]]
    for name, cell in [(anchor, row[anchor]), *every]:
        if cell is not None and not isinstance(cell, str):
            raise ValueError(f"row {number}: {name} must contain texts, got {cell!r}")
    if not row[anchor]:
        raise ValueError(f"row {number}: {anchor} is empty")
    if not any(cell for _, cell in cells["positive"]):
        raise ValueError(f"row {number}: no text in {' or '.join(ends['positive'])}")
    values = [None] * len(every) if row.get(scores) is None else list(row[scores])
    texts = sum(bool(cell) for _, cell in every)
    if len(values) not in (len(every), texts):
        raise ValueError(
            f"row {number}: {scores} must contain {texts} numbers, one per document, "
            f"got {len(values)}"
        )
    for value in values:
        is_number = isinstance(value, int | float) and not math.isinf(value)
        if not (value is None or is_number):
            raise ValueError(f"row {number}: {scores} must contain finite numbers, got {value!r}")
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
