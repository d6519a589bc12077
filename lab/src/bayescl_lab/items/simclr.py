"""SimCLR as a Lightning module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import lightning.pytorch as pl
import torch
from jaxtyping import Float
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.lr_scheduler import CosineAnnealingLR

from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.items.augmentation import Augmentation, Views
from bayescl_lab.items.batches import ItemBatch
from bayescl_lab.items.store import Items

Embed = Callable[[Items, int, bool], tuple[Tensor, ...]]
"""Function like :meth:`SimCLR.embed`."""


class SimCLR(pl.LightningModule):
    """SimCLR: training of an encoder with two views of each item.

    Each view is encoded in a call of its own, so batch normalization uses statistics of one view.
    All randomness is derived from (``seed``, epoch, step).

    With ``embeds_items``, the teacher of the loss consists of embeddings of the items without
    augmentation, computed by the same network in the same mode, without gradient. This does not
    change the running statistics of batch normalization.

    Several devices divide each batch, and the loss must gather all embeddings.

    Args:
        encoder: Module that maps items to features. It is kept after training.
        projection_head: Module that maps features to embeddings.
        loss: Loss called as ``loss(view_1, view_2)`` on two ``[batch, dim]`` tensors, with the
            metadata of the batch: ``labels=``, ``teacher=`` or ``domains=``. The oracle loss
            gets labels as ``groups=``, SupCon as ``labels=``. Checkpoints include the loss.
        augmentation: Module that draws views of items.
        normalization: Normalization of views and of items without augmentation.
        learning_rate: Initial learning rate. It decreases to 0 by a cosine schedule.
        weight_decay: Weight decay of Adam.
        total_steps: Number of steps of the whole run, for the cosine schedule.
        embeds_items: Whether embeddings of the items without augmentation are the teacher.
        channels_last: Whether to use the channels-last memory format, which is faster in half
            precision.
        seed: Seed of the run.
    """

    def __init__(
        self,
        *,
        encoder: nn.Module,
        projection_head: nn.Module,
        loss: nn.Module,
        augmentation: Augmentation,
        normalization: nn.Module,
        learning_rate: float,
        weight_decay: float = 1e-6,
        total_steps: int,
        embeds_items: bool = False,
        channels_last: bool = False,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection_head = projection_head
        self.loss = loss
        self.augmentation = augmentation
        self.normalization = normalization
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.total_steps = total_steps
        self.embeds_items = embeds_items
        self.channels_last = channels_last
        self.seed = seed
        self.captured: Embed | None = None

    def forward(self, items: Items) -> Float[Tensor, "batch features"]:
        """Compute features of items, without augmentation or projection head."""
        return self.encode_views(self.augmentation.plain(items))

    def encode_views(self, views: Views) -> Float[Tensor, "batch features"]:
        """Compute features of views, or of items without augmentation."""
        if self.channels_last:
            views = views.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.encoder(self.normalization(views))
        return features

    def draw_views(self, items: Items, views: Sequence[int], step: int) -> tuple[Views, ...]:
        """Draw augmented views of each item by view number. Devices draw different views."""
        return self.augmentation.views(items, self.view_seeds(views, step))

    def view_seeds(self, views: Sequence[int], step: int) -> list[int]:
        """Return the seed of each view number in a step."""
        # The first device draws the same as a single one.
        rank = (self.global_rank,) if self.global_rank else ()
        positions = ((self.current_epoch, step, view, *rank) for view in views)
        return [derived_seed(self.seed, Purpose.VIEWS, *position) for position in positions]

    def training_step(self, batch: ItemBatch, batch_idx: int) -> Float[Tensor, ""]:
        """Compute the loss of one batch."""
        known = dict(batch.known)
        for name in ("groups", "labels"):
            if getattr(self.loss, f"needs_{name}", False):
                known[name] = batch.labels
        embed = self.embed if self.captured is None else self.captured
        view_1, view_2, *teacher = embed(batch.items, batch_idx, self.embeds_items)
        if teacher:
            (known["teacher"],) = teacher
        value: Tensor = self.loss(view_1, view_2, **known)
        return value

    def embed(
        self, items: Items, step: int, with_plain: bool
    ) -> tuple[Float[Tensor, "batch dim"], ...]:
        """Compute embeddings of both views of a step and optionally of the items."""
        return self.embed_views(self.draw_views(items, (1, 2), step), items if with_plain else None)

    def embed_views(
        self, views: Sequence[Views], plain: Items | None
    ) -> tuple[Float[Tensor, "batch dim"], ...]:
        """Compute embeddings of each view and of unaugmented items, if any, in separate calls."""
        embedded = [self.projection_head(self.encode_views(view)) for view in views]
        if plain is not None:
            # After the views: autocast keeps the weights that they converted, with gradients.
            with torch.no_grad(), fixed_statistics(self):
                embedded.append(self.projection_head(self(plain)))
        return tuple(embedded)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return Adam, fused on a GPU, with a cosine schedule per step."""
        parameters = list(self.parameters())
        fused = True if all(parameter.is_cuda for parameter in parameters) else None
        optimizer = torch.optim.Adam(
            parameters, self.learning_rate, weight_decay=self.weight_decay, fused=fused
        )
        schedule = CosineAnnealingLR(optimizer, self.total_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }


@contextmanager
def fixed_statistics(module: nn.Module) -> Iterator[None]:
    """Keep batch normalization from updating its running statistics.

    In training mode, batches are still normalized by their own statistics.
    """
    tracking = [
        norm
        for norm in module.modules()
        if isinstance(norm, _BatchNorm) and norm.track_running_stats
    ]
    for norm in tracking:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in tracking:
            norm.track_running_stats = True
