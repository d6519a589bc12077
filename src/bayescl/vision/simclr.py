"""SimCLR as a Lightning module, with the loss handed in."""

from __future__ import annotations

import math

import lightning.pytorch as pl
import torch
from jaxtyping import UInt8
from torch import nn

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count, check_non_negative, check_positive
from bayescl._randomness import Purpose, derived_seed
from bayescl.vision.batches import ImageBatch


class SimCLR(pl.LightningModule):
    """Train an encoder so that two views of an image agree.

    Each view passes through the network in its own call, so that batch normalisation sees one
    view at a time. Everything random is derived from (``seed``, epoch, step); see
    :mod:`bayescl._randomness`.

    Args:
        encoder: images to features; kept after training.
        projection_head: features to embeddings; discarded after training.
        loss: called as ``loss(view_1, view_2)`` on two ``[batch, dim]`` tensors, and with
            ``groups=labels`` if it ``needs_groups``, as the oracle does; no other loss sees a
            label. It is a part of the module, so its state is in every checkpoint.
        augmentation: called as ``augmentation(images, seed=...)`` on uint8 images.
        normalization: applied to views and, when features are extracted, to plain images.
        learning_rate: of Adam at the start; it follows a cosine down to 0.
        weight_decay: of Adam.
        total_steps: steps of the whole run; the cosine ends there.
        seed: the seed of the run.
    """

    def __init__(
        self,
        *,
        encoder: nn.Module,
        projection_head: nn.Module,
        loss: nn.Module,
        augmentation: nn.Module,
        normalization: nn.Module,
        learning_rate: float,
        weight_decay: float = 1e-6,
        total_steps: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection_head = projection_head
        self.loss = loss
        self.augmentation = augmentation
        self.normalization = normalization
        self.learning_rate = check_positive("learning_rate", learning_rate)
        self.weight_decay = check_non_negative("weight_decay", weight_decay)
        self.total_steps = check_count("total_steps", total_steps, 1)
        self.seed = check_count("seed", seed, 0)

    def forward(
        self, images: UInt8[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features"]:
        """Features of images as they are, without augmentation or head."""
        return self.encoder(self.normalization(images.float() / 255))

    def embed_view(
        self, images: UInt8[Tensor, "batch channels height width"], *, view: int, step: int
    ) -> Float[Tensor, "batch dim"]:
        """Embeddings of one augmented view of each image."""
        seed = derived_seed(self.seed, Purpose.VIEWS, self.current_epoch, step, view)
        views = self.augmentation(images, seed=seed)
        return self.projection_head(self.encoder(self.normalization(views)))

    def training_step(self, batch: ImageBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The loss of one batch."""
        view_1 = self.embed_view(batch.images, view=1, step=batch_idx)
        view_2 = self.embed_view(batch.images, view=2, step=batch_idx)
        labels = {"groups": batch.labels} if getattr(self.loss, "needs_groups", False) else {}
        loss = self.loss(view_1, view_2, **labels)
        self.log("loss", loss, on_step=False, on_epoch=True, batch_size=len(batch.images))
        return loss

    def configure_optimizers(self) -> dict[str, object]:
        """Adam whose learning rate follows half a cosine, updated at every step."""
        optimizer = torch.optim.Adam(
            self.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, self._cosine)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def _cosine(self, step: int) -> float:
        """The share of the learning rate that is left at a step."""
        return 0.5 * (1 + math.cos(math.pi * min(step / self.total_steps, 1.0)))
