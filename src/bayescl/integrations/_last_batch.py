"""Batches of one item, which may occur at the end of an epoch."""

from __future__ import annotations

import warnings

import torch

from bayescl import distributed
from bayescl._types import Float, Tensor
from bayescl.losses import ContrastiveLoss


class LoneItems:
    """Compute the loss 0 for batches of one item, as other libraries do."""

    def __init__(self) -> None:
        self._has_warned = False

    def loss_of(
        self, loss: ContrastiveLoss, first: Float[Tensor, "1 dim"], second: Float[Tensor, "1 dim"]
    ) -> Float[Tensor, "*pairs"] | None:
        """Return 0, with gradient 0, for a batch of one item; warn once. Else return ``None``."""
        is_lone = first.ndim == 2 and len(first) == 1 and first.shape == second.shape
        if not is_lone or (loss.gather and distributed.world_size() > 1):
            return None
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "a batch of one item has no candidates, so its loss is 0; pass drop_last=True to "
                "the DataLoader to drop it",
                stacklevel=5,
            )
        wide = torch.promote_types(first.dtype, torch.float32)
        zero = (0 * first.to(wide) + 0 * second.to(wide)).sum(dim=1)
        return loss.reduced(torch.cat([zero, zero]))
