"""Items with a label that a memory holds: some train with it, others only audit."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Int, Tensor


class LabelledItems(NamedTuple):
    """Both views of items, side by side, their labels, and the calls they came in, oldest first."""

    views: Float[Tensor, "labelled two_dim"]
    labels: Int[Tensor, " labelled"]
    calls: Int[Tensor, " labelled"]

    def last(self, most: int) -> LabelledItems:
        """Return the last items, of any label."""
        return LabelledItems(*(part[-most:].clone() for part in self))

    def latest(self, most: int) -> LabelledItems:
        """Return the latest items of each label, ``most`` of each."""
        return self._those(self._behind <= most)

    def recent(self, call: int, most: int) -> LabelledItems:
        """Return what came since a call, ``most`` of each label, but at least the latest two."""
        behind = self._behind
        return self._those((behind <= most) & ((behind <= 2) | (self.calls >= call)))

    @property
    def num_different(self) -> float:
        """Items that are all but surely different: of each label as many as one call had, or 2."""
        same = self.labels[:, None] == self.labels
        together = (same & (self.calls[:, None] == self.calls)).sum(dim=1)
        most = (same * together).amax(dim=1).clamp_min(2)
        return float((most / same.sum(dim=1)).clamp_max(1).sum())

    @property
    def _behind(self) -> Int[Tensor, " labelled"]:
        """How many items of its label have come from each on, itself included."""
        return (self.labels[:, None] == self.labels).triu().sum(dim=1)

    def _those(self, chosen: Bool[Tensor, " labelled"]) -> LabelledItems:
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
