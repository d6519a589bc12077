"""What a method gets at every step, and what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Step:
    """One step of training, as a method sees it.

    Attributes:
        view_1: embeddings of the first views, ``[batch, dim]``, not normalised.
        view_2: those of the second views.
        items: place of each image in the data set, ``[batch]``.
        labels: class of each image, ``[batch]``; for oracles alone.
        progress: share of the run that is done, from 0 at the first step to just below 1.
        teacher: embeddings ``[batch, dim]`` of the view of a number, by a slow copy of the
            network, without gradient; views 1 and 2 are those of the student. None for a method
            without a teacher.
    """

    view_1: Tensor
    view_2: Tensor
    items: Tensor
    labels: Tensor
    progress: float
    teacher: Callable[[int], Tensor] | None = None


@dataclass(frozen=True)
class Sizes:
    """What a method may need to know of a run before it starts.

    Attributes:
        items: images in the training part.
        dim: length of an embedding.
    """

    items: int
    dim: int


class Rival(nn.Module):
    """A method: a step in, a scalar out. Its parameters train with the network.

    Attributes:
        momentum: of the teacher's moving average, in [0, 1); None for a method without one.
    """

    momentum: float | None = None

    def forward(self, step: Step) -> Tensor:
        """The loss of one step."""
        raise NotImplementedError


class PlainLoss(Rival):
    """Call ``loss(view_1, view_2)``, with labels as groups where the loss is undefined without.

    Args:
        loss: a loss on two views.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, step: Step) -> Tensor:
        """The loss of both views."""
        groups = {"groups": step.labels} if getattr(self.loss, "needs_groups", False) else {}
        return self.loss(step.view_1, step.view_2, **groups)


@dataclass(frozen=True)
class TwoViewLogits:
    """Every row of both views against every row.

    Attributes:
        similarity: cosines ``[2 batch, 2 batch]``, first views before second ones.
        logits: the same divided by the temperature.
        positive: True where a column is the row's other view.
        candidate: True where a column is a view of another item.
    """

    similarity: Tensor
    logits: Tensor
    positive: Tensor
    candidate: Tensor


def two_view_logits(view_1: Tensor, view_2: Tensor, temperature: float) -> TwoViewLogits:
    """Cosines of all pairs of rows, and which of them mean what."""
    rows = F.normalize(torch.cat([view_1, view_2]).float(), dim=1)
    similarity = rows @ rows.T
    item = torch.arange(len(view_1), device=rows.device).repeat(2)
    same_item = item[:, None] == item[None, :]
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    return TwoViewLogits(similarity, similarity / temperature, same_item & ~itself, ~same_item)
