"""Which rows are scored against which, spelled out one pair at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Row = Callable[[Tensor, list[Tensor]], Tensor]
"""A reference objective with its parameters bound."""


def cosine(first: Tensor, second: Tensor) -> Tensor:
    return (first * second).sum() / (first.square().sum().sqrt() * second.square().sum().sqrt())


def two_views(
    view_1: Tensor,
    view_2: Tensor,
    row: Row,
    temperature: float,
    groups: Sequence[int] | None = None,
) -> Tensor:
    batch, rows, losses = len(view_1), [*view_1, *view_2], []
    for i, anchor in enumerate(rows):
        partner = (i + batch) % (2 * batch)
        logits = [cosine(anchor, other) / temperature for other in rows]
        apart = [groups is None or groups[i % batch] != groups[j % batch] for j in range(2 * batch)]
        kept = [j for j in range(2 * batch) if j not in (i, partner) and apart[j]]
        losses.append(row(logits[partner], [logits[j] for j in kept]))
    return torch.stack(losses)


def pairs(
    anchors: Tensor,
    positives: Tensor,
    row: Row,
    temperature: float,
    extra: Tensor | None = None,
    valid: Tensor | None = None,
) -> Tensor:
    columns, losses = [*positives, *([] if extra is None else extra)], []
    for i, anchor in enumerate(anchors):
        logits = [cosine(anchor, column) / temperature for column in columns]
        kept = [j for j in range(len(columns)) if j != i and (valid is None or bool(valid[i, j]))]
        losses.append(row(logits[i], [logits[j] for j in kept]))
    return torch.stack(losses)
