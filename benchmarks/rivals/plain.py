"""A loss of the library as a method."""

from __future__ import annotations

from torch import Tensor, nn

from rivals.steps import Rival, Step


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
