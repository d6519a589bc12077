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
    batch = len(view_1)
    rows = [*view_1, *view_2]
    losses = []
    for i in range(2 * batch):
        partner = (i + batch) % (2 * batch)
        unlabeled = [
            cosine(rows[i], rows[j]) / temperature
            for j in range(2 * batch)
            if j not in (i, partner) and (groups is None or groups[i % batch] != groups[j % batch])
        ]
        losses.append(row(cosine(rows[i], rows[partner]) / temperature, unlabeled))
    return torch.stack(losses)


def pairs(
    anchors: Tensor,
    positives: Tensor,
    row: Row,
    temperature: float,
    extra: Tensor | None = None,
    valid: Tensor | None = None,
) -> Tensor:
    columns = [*positives] + ([] if extra is None else [*extra])
    losses = []
    for i in range(len(anchors)):
        unlabeled = [
            cosine(anchors[i], columns[j]) / temperature
            for j in range(len(columns))
            if j != i and (valid is None or bool(valid[i, j]))
        ]
        losses.append(row(cosine(anchors[i], positives[i]) / temperature, unlabeled))
    return torch.stack(losses)
