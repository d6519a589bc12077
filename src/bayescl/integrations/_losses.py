"""Checks of the losses that adapters receive, and batches of one item."""

from __future__ import annotations

from typing import Any

import torch

from bayescl import distributed
from bayescl._types import Float, Tensor
from bayescl.losses import ContrastiveLoss


def new_loss(kind: type[ContrastiveLoss], **options: Any) -> Any:
    """Create a loss of a class; raise ``TypeError`` if it is not a class of a loss."""
    if not (isinstance(kind, type) and issubclass(kind, ContrastiveLoss)):
        raise TypeError(f"loss must be a class such as InfoNCELoss, got {shown(kind)}")
    return kind(**options)


def check_type(name: str, value: Any, kind: type, example: str) -> None:
    """Raise ``TypeError`` if a value is not an instance of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {example}, got {shown(value)}")


def shown(value: Any) -> str:
    """Return a short description of a value for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def loss_of_one_item(
    loss: ContrastiveLoss, first: Float[Tensor, "batch dim"], second: Float[Tensor, "batch dim"]
) -> Float[Tensor, "*pairs"] | None:
    """Return 0, with gradient 0, for a batch of one item; warn once. Else return ``None``.

    Other libraries also return 0 for such batches, which may end an epoch.
    """
    is_lone = first.ndim == 2 and len(first) == 1 and first.shape == second.shape
    if not is_lone or (loss.gather and distributed.world_size() > 1):
        return None
    loss._warn_once(
        "one item",
        "a batch of one item has no candidates, so its loss is 0; pass drop_last=True to the "
        "DataLoader to drop it",
    )
    wide = torch.promote_types(first.dtype, torch.float32)
    zero = (0 * first.to(wide) + 0 * second.to(wide)).sum(dim=1)
    return loss.reduced(torch.cat([zero, zero]))
