"""SimCLR as a Lightning module, with the loss handed in."""

from __future__ import annotations

import math
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.batches import ImageBatch
from bayescl_lab.images.encoders import Views
from bayescl_lab.images.pixel_files import Pixels

MOMENTUM = 0.9
"""That of the optimizer "sgd"."""


class SimCLR(pl.LightningModule):
    """Train an encoder so that two views of an image agree.

    Each view passes through the network in its own call, so batch normalisation sees one view at a
    time. All randomness is derived from (``seed``, epoch, step).

    On several devices, each holds its part of every batch. The loss must gather, so that the views
    of a device are scored against those of all.

    Args:
        encoder: images to features; kept after training.
        projection_head: features to embeddings.
        loss: called as ``loss(view_1, view_2)`` on two ``[batch, dim]`` tensors, with labels as
            ``groups=`` or ``labels=`` if it needs them, as the oracles do, and with what the batch
            says is known: ``labels=``, ``domains=``. Its state is in every checkpoint.
        augmentation: called as ``augmentation(images, seed=...)`` on uint8 images.
        normalization: applied to views and, when features are extracted, to plain images.
        optimizer: "adam" or "sgd".
        learning_rate: the first learning rate; it follows half a cosine down to 0.
        weight_decay: of the optimizer.
        total_steps: steps of the whole run; the cosine ends there.
        channels_last: whether to use that memory format, for convolutions in half precision.
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
        optimizer: Literal["adam", "sgd"] = "adam",
        learning_rate: float,
        weight_decay: float = 1e-6,
        total_steps: int,
        channels_last: bool = False,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection_head = projection_head
        self.loss = loss
        self.augmentation = augmentation
        self.normalization = normalization
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.total_steps = total_steps
        self.channels_last = channels_last
        self.seed = seed

    def forward(self, images: Pixels) -> Float[Tensor, "batch features"]:
        """Features of images, without augmentation or head."""
        return self.encode_views(images.float() / 255)

    def encode_views(self, views: Views) -> Float[Tensor, "batch features"]:
        """Features of images with values in [0, 1]."""
        features: Tensor = self.encoder(self.normalization(self._arranged(views)))
        return features

    def draw_views(self, images: Pixels, view: int, step: int) -> Views:
        """One augmented view of each image; every device draws different views."""
        place = (self.current_epoch, step, view, self.global_rank)
        # The first device draws the same as a single one.
        seed = derived_seed(self.seed, Purpose.VIEWS, *(place if place[-1] else place[:-1]))
        return self._arranged(self.augmentation(images, seed=seed))

    def _arranged(self, images: Tensor) -> Tensor:
        """Images in the memory format for the encoder."""
        if self.channels_last:
            return images.contiguous(memory_format=torch.channels_last)
        return images

    def training_step(self, batch: ImageBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The loss of one batch."""
        known = dict(batch.known)
        for name in ("groups", "labels"):
            if getattr(self.loss, f"needs_{name}", False):
                known[name] = batch.labels
        views = (self.draw_views(batch.images, view, batch_idx) for view in (1, 2))
        value: Tensor = self.loss(
            *map(self.projection_head, map(self.encode_views, views)), **known
        )
        return value

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimizer, and its learning rate along half a cosine, updated at every step."""
        parameters = list(self.parameters())
        shared: Any = {"lr": self.learning_rate, "weight_decay": self.weight_decay}
        optimizer: torch.optim.Optimizer
        if self.optimizer == "sgd":
            optimizer = torch.optim.SGD(parameters, momentum=MOMENTUM, **shared)
        else:  # on a GPU as one kernel
            fused = True if all(parameter.is_cuda for parameter in parameters) else None
            optimizer = torch.optim.Adam(parameters, fused=fused, **shared)

        def share(step: int) -> float:
            return 0.5 * (1 + math.cos(math.pi * min(step / self.total_steps, 1.0)))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }
