"""Stratified splits that depend only on a seed."""

from __future__ import annotations

import torch

from bayescl.axes import Int, Tensor
from bayescl.checks import check_interval


def stratified_split(
    labels: Int[Tensor, " images"], *, share: float, seed: int
) -> tuple[Int[Tensor, " first"], Int[Tensor, " second"]]:
    """Split rows in two so that every class is divided in the same proportion.

    Args:
        labels: the class of each row.
        share: the part of every class that goes to the first set, in (0, 1), rounded to whole
            rows.
        seed: seed for drawing the rows.

    Returns:
        The rows of the first and the second set, each ascending; every row is in exactly one.

    Raises:
        ValueError: if ``share`` is out of range.

    Example:
        >>> labels = torch.tensor([0] * 10 + [1] * 20)
        >>> first, second = stratified_split(labels, share=0.7, seed=0)
        >>> labels[first].bincount().tolist(), labels[second].bincount().tolist()
        ([7, 14], [3, 6])
    """
    check_interval("share", share, 0.0, 1.0, open_low=True, open_high=True)
    labels = labels.cpu()
    generator = torch.Generator().manual_seed(seed)
    first, second = [], []
    for label in labels.unique():
        rows = (labels == label).nonzero().squeeze(1)
        rows = rows[torch.randperm(len(rows), generator=generator)]
        size = round(share * len(rows))
        first.append(rows[:size])
        second.append(rows[size:])
    return torch.cat(first).sort().values, torch.cat(second).sort().values
