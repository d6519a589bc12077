"""A loss with the interface of lightly's ``NTXentLoss``, without its memory bank.

It replaces lightly's class and does not need lightly itself. Tested against lightly 1.6.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bayescl import distributed
from bayescl._types import Float, Tensor
from bayescl.integrations._losses import loss_of_one_item, new_loss
from bayescl.losses import ContrastiveLoss, InfoNCELoss


class NTXentLoss(nn.Module):
    """Loss of this package with lightly's arguments, and a teacher as third input.

    Every row of both outputs is an anchor, and all rows of other images are its candidates, as in
    SimCLR.

    Args:
        temperature: Temperature of the softmax, positive. Default: 0.5.
        memory_bank_size: Must be 0. For candidates of a memory bank, call
            :meth:`~bayescl.losses.ContrastiveLoss.sampled`.
        gather_distributed: Whether candidates come from all devices. This has no effect in a single
            process. Default: False.
        loss: Class of :mod:`bayescl.losses`. Default: InfoNCE, which is lightly's own loss.
        **options: Further arguments of the loss, such as ``positive_share`` and ``alpha``.

    Raises:
        ValueError: if an argument is out of range.
        TypeError: if ``loss`` is not a class of a loss.

    Example:
        >>> criterion = NTXentLoss(temperature=0.5)
        >>> criterion(torch.eye(3), torch.eye(3))
        tensor(0.4327)
        >>> criterion(torch.eye(3), torch.eye(3), torch.eye(3))  # half of the target is shared
        tensor(1.4327)
    """

    def __init__(
        self,
        temperature: float = 0.5,
        memory_bank_size: int = 0,
        gather_distributed: bool = False,
        *,
        loss: type[ContrastiveLoss] = InfoNCELoss,
        **options: Any,
    ) -> None:
        super().__init__()
        if memory_bank_size != 0:
            raise ValueError(f"memory_bank_size must be 0 (no memory bank), got {memory_bank_size}")
        self.loss = new_loss(loss, temperature=temperature, **options)
        self.gather_distributed = gather_distributed

    def forward(
        self,
        out0: Float[Tensor, "batch dim"],
        out1: Float[Tensor, "batch dim"],
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
        **metadata: Any,
    ) -> Float[Tensor, ""]:
        """Compute the loss of two views of a batch; 0 for a batch of one item.

        Args:
            out0: Embeddings of the first views.
            out1: Embeddings of the second views of the same images, in the same order.
            teacher: Embeddings of the images without augmentation, from the same model without
                gradient or from another model. Default: no soft targets.
            **metadata: ``groups``, ``domains``, ``labels`` and other arguments of
                :meth:`~bayescl.losses.ContrastiveLoss.forward`.

        Raises:
            ValueError: if shapes do not match.
        """
        self.loss.gather = self.gather_distributed and distributed.is_initialized()
        value = loss_of_one_item(self.loss, out0, out1)
        if value is None:
            value = self.loss(out0, out1, teacher=teacher, **metadata)
        return value
