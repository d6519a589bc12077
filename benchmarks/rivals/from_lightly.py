"""Methods of lightly: its losses, queues and heads, put together as its documentation does."""

from __future__ import annotations

import torch
from lightly.loss import NTXentLoss, SwaVLoss
from lightly.models.modules import NNCLRPredictionHead, NNMemoryBankModule, SwaVPrototypes
from torch import Tensor
from torch.nn import functional as F

from rivals.steps import Rival, Sizes, Step


class NNCLR(Rival):
    """NNCLR: predict from one view the nearest neighbour of the other in a queue.

    Reference:
        Dwibedi et al., "With a Little Help from My Friends", ICCV 2021.

    Args:
        sizes: items and dimension of the run.
        temperature: softmax scale.
        queue: rows of the queue.
        hidden_dim: width of the prediction head.
    """

    def __init__(
        self, sizes: Sizes, *, temperature: float = 0.1, queue: int = 1024, hidden_dim: int = 512
    ) -> None:
        super().__init__()
        self.neighbour = NNMemoryBankModule(size=(queue, sizes.dim))
        self.predict = NNCLRPredictionHead(sizes.dim, hidden_dim, sizes.dim)
        self.loss = NTXentLoss(temperature=temperature)

    def forward(self, step: Step) -> Tensor:
        """The mean of both directions."""
        neighbour_1 = self.neighbour(step.view_1.detach(), update=False)
        neighbour_2 = self.neighbour(step.view_2.detach(), update=True)
        predicted_1, predicted_2 = self.predict(step.view_1), self.predict(step.view_2)
        return (self.loss(neighbour_1, predicted_2) + self.loss(neighbour_2, predicted_1)) / 2


class SwAV(Rival):
    """SwAV: one view predicts the other's balanced assignment to prototypes.

    There are two views and no smaller ones, as every method here has the same two.

    Reference:
        Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster
        Assignments", NeurIPS 2020.

    Args:
        sizes: items and dimension of the run.
        temperature: of the prediction.
        epsilon: of the assignment; small is sharp.
        prototypes: how many.
        queue: embeddings of earlier batches that are assigned together with each view, from
            the moment that there are so many; more than one batch's worth for small batches.
    """

    def __init__(
        self,
        sizes: Sizes,
        *,
        temperature: float = 0.1,
        epsilon: float = 0.05,
        prototypes: int = 100,
        queue: int = 0,
    ) -> None:
        super().__init__()
        self.prototypes = SwaVPrototypes(sizes.dim, prototypes)
        self.loss = SwaVLoss(temperature=temperature, sinkhorn_epsilon=epsilon)
        self.register_buffer("queue", torch.zeros(2, queue, sizes.dim))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def forward(self, step: Step) -> Tensor:
        """The mean of both directions."""
        self.prototypes.normalize()
        views = [F.normalize(view, dim=1) for view in (step.view_1, step.view_2)]
        queued = None
        if 0 < self.queue.shape[1] <= self.filled:
            with torch.no_grad():
                queued = [self.prototypes(rows) for rows in self.queue]
        loss = self.loss([self.prototypes(view) for view in views], [], queued)
        self._remember(torch.stack(views).detach())
        return loss.squeeze()

    @torch.no_grad()
    def _remember(self, views: Tensor) -> None:
        """Put rows first; the last ones fall out."""
        size = self.queue.shape[1]
        self.queue.copy_(torch.cat([views, self.queue], dim=1)[:, :size])
        self.filled.add_(views.shape[1]).clamp_(max=size)
