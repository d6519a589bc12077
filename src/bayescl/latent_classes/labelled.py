"""Items with a label that a memory holds: some train with it, others only audit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor


class LabelledItems(NamedTuple):
    """Both views of items, side by side, their labels, and the calls they came in, oldest first."""

    views: Float[Tensor, "labelled two_dim"]
    labels: Int[Tensor, " labelled"]
    calls: Int[Tensor, " labelled"]

    def last(self, most: int) -> LabelledItems:
        """Return the last items, of any label."""
        return LabelledItems(*(part[-most:].clone() for part in self))

    def latest(self, most: int, *, distinct: bool = False) -> LabelledItems:
        """Return the latest items of each label.

        Args:
            most: items of each label.
            distinct: whether to keep only what is likely to be different items. Items come again
                in every epoch and have no names, but those of one call differ. So of each label
                as many are kept as came in one call, or two: a shuffled epoch has to end between
                two items before one of them can follow itself.
        """
        of_label = F.one_hot(self.labels.unique(return_inverse=True)[1])  # [labelled, labels]
        behind = of_label.flip(0).cumsum(dim=0).flip(0)  # its own and later ones
        kept = torch.full_like(self.labels, most)
        if distinct:
            pairs = torch.stack([self.labels, self.calls], dim=1)
            _, of_call, counts = pairs.unique(dim=0, return_inverse=True, return_counts=True)
            together = (of_label * counts[of_call, None]).amax(dim=0)  # of each label
            kept = (of_label * together.clamp(2, most)).sum(dim=1)
        chosen = (behind * of_label).sum(dim=1) <= kept
        return LabelledItems(*(part[chosen] for part in self))


def joined(
    held: LabelledItems | None, views: Tensor, labels: Tensor | None, call: int
) -> LabelledItems | None:
    """Append those items of a call whose label is known."""
    if labels is None or not bool((labels >= 0).any()):
        return held
    known = labels >= 0
    calls = torch.full_like(labels[known], call)
    new = LabelledItems(views[known], labels[known], calls)
    if held is None:
        return new
    return LabelledItems(*(torch.cat(parts) for parts in zip(held, new, strict=True)))
