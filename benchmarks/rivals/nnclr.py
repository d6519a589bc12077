"""NNCLR: the positive is the nearest neighbour of the other view in a queue.

Reference:
    Dwibedi et al., "With a Little Help from My Friends", ICCV 2021. Queue, prediction head and
    loss are lightly's, put together as its documentation does.
"""

from __future__ import annotations

from torch import Tensor

from rivals.steps import Rival, Sizes, Step


class NNCLR(Rival):
    """Predict the neighbour of one view from the other view.

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
        from lightly.loss import NTXentLoss
        from lightly.models.modules import NNCLRPredictionHead, NNMemoryBankModule

        self.neighbour = NNMemoryBankModule(size=(queue, sizes.dim))
        self.predict = NNCLRPredictionHead(sizes.dim, hidden_dim, sizes.dim)
        self.loss = NTXentLoss(temperature=temperature)

    def forward(self, step: Step) -> Tensor:
        """The mean of both directions."""
        neighbour_1 = self.neighbour(step.view_1.detach(), update=False)
        neighbour_2 = self.neighbour(step.view_2.detach(), update=True)
        predicted_1, predicted_2 = self.predict(step.view_1), self.predict(step.view_2)
        return (self.loss(neighbour_1, predicted_2) + self.loss(neighbour_2, predicted_1)) / 2
