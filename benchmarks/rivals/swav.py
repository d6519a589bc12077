"""SwAV: one view predicts the other's balanced assignment to prototypes.

Reference:
    Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster Assignments",
    NeurIPS 2020. Prototypes and loss are lightly's; there are two views and no smaller ones, as
    every method here has the same two.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from rivals.steps import Rival, Sizes, Step


class SwAV(Rival):
    """Swapped prediction of assignments.

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
        from lightly.loss import SwaVLoss
        from lightly.models.modules import SwaVPrototypes

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
