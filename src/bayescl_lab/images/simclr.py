"""SimCLR as a Lightning module, with the loss handed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import lightning.pytorch as pl
import torch
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.lr_scheduler import CosineAnnealingLR

from bayescl.axes import Float, Tensor
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.augmentation import Augmentation
from bayescl_lab.images.batches import ImageBatch
from bayescl_lab.images.encoders import Views
from bayescl_lab.images.pixel_files import Pixels

Embed = Callable[[Pixels, int, bool], tuple[Tensor, ...]]
"""A function like :meth:`SimCLR.embed`."""


class SimCLR(pl.LightningModule):
    """Train an encoder so that two views of an image agree.

    Each view passes through the network in its own call, so batch normalisation sees one view at a
    time. All randomness is derived from (``seed``, epoch, step).

    With a ``positive_share`` below 1, the loss has a teacher: the embeddings of the images without
    augmentation, by the same network in the same mode, without gradient. Running statistics of
    batch normalisation see only the views. A ``teacher`` in ``known`` replaces it.

    On several devices, each holds its part of every batch. The loss must gather, so that the views
    of a device are scored against those of all.

    Args:
        encoder: images to features; kept after training.
        projection_head: features to embeddings.
        loss: called as ``loss(view_1, view_2)`` on two ``[batch, dim]`` tensors, with labels as
            ``groups=`` or ``labels=`` if it needs them, as the oracles do, and with what the batch
            says is known: ``labels=``, ``teacher=``, ``domains=``. Every checkpoint has its state.
        augmentation: draws the views of uint8 images.
        normalization: applied to views and, when features are extracted, to plain images.
        learning_rate: the first learning rate; it follows half a cosine down to 0.
        weight_decay: of Adam.
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
        augmentation: Augmentation,
        normalization: nn.Module,
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
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.total_steps = total_steps
        self.channels_last = channels_last
        self.seed = seed
        self.captured: Embed | None = None

    def forward(self, images: Pixels) -> Float[Tensor, "batch features"]:
        """Features of images, without augmentation or head."""
        return self.encode_views(images.float() / 255)

    def encode_views(self, views: Views) -> Float[Tensor, "batch features"]:
        """Features of images with values in [0, 1]."""
        if self.channels_last:
            views = views.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.encoder(self.normalization(views))
        return features

    def draw_views(self, images: Pixels, views: Sequence[int], step: int) -> tuple[Views, ...]:
        """Draw augmented views of each image, by number; every device draws different ones."""
        return self.augmentation.views(images, self.view_seeds(views, step))

    def view_seeds(self, views: Sequence[int], step: int) -> list[int]:
        """The seeds of views of a step, by number."""
        # The first device draws the same as a single one.
        rank = (self.global_rank,) if self.global_rank else ()
        places = ((self.current_epoch, step, view, *rank) for view in views)
        return [derived_seed(self.seed, Purpose.VIEWS, *place) for place in places]

    def training_step(self, batch: ImageBatch, batch_idx: int) -> Float[Tensor, ""]:
        """The loss of one batch."""
        known = dict(batch.known)
        for name in ("groups", "labels"):
            if getattr(self.loss, f"needs_{name}", False):
                known[name] = batch.labels
        share = getattr(self.loss, "positive_share", None)
        is_own_teacher = share is not None and share < 1 and "teacher" not in known
        embed = self.embed if self.captured is None else self.captured
        view_1, view_2, *teacher = embed(batch.images, batch_idx, is_own_teacher)
        if teacher:
            (known["teacher"],) = teacher
        value: Tensor = self.loss(view_1, view_2, **known)
        return value

    def embed(
        self, images: Pixels, step: int, with_plain: bool
    ) -> tuple[Float[Tensor, "batch dim"], ...]:
        """Embeddings of both views of a step and, if asked for, of the images themselves."""
        return self.embed_views(
            self.draw_views(images, (1, 2), step), images if with_plain else None
        )

    def embed_views(
        self, views: Sequence[Views], plain: Pixels | None
    ) -> tuple[Float[Tensor, "batch dim"], ...]:
        """Embeddings of each view and of plain images, if any, each by a call of its own."""
        embedded = [self.projection_head(self.encode_views(view)) for view in views]
        if plain is not None:
            # After the views: autocast keeps the weights that they converted, with gradients.
            with torch.no_grad(), fixed_statistics(self):
                embedded.append(self.projection_head(self(plain)))
        return tuple(embedded)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam, on a GPU as one kernel, and its learning rate along half a cosine, step by step."""
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
    """Keep batch normalisation from updating its running statistics.

    In training mode, batches are still normalised by their own statistics.
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
