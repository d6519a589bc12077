"""SimCLR as a Lightning module, with the loss handed in."""

from __future__ import annotations

from functools import partial
from typing import cast

import lightning.pytorch as pl
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from bayescl.axes import Float, Tensor
from bayescl.losses import cached_backward
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.batches import ImageBatch
from bayescl_lab.images.encoders import Views
from bayescl_lab.images.optimizers import OptimizerFactory, adam, warm_up_and_cosine
from bayescl_lab.images.pixel_files import Pixels


class SimCLR(pl.LightningModule):
    """Train an encoder so that two views of an image agree.

    Each view passes through the network in its own call, so batch normalisation sees one view at a
    time. All randomness is derived from (``seed``, epoch, step).

    On several devices, each holds its part of every batch. The loss must gather, so that the views
    of a device are scored against those of all.

    Args:
        encoder: images to features; kept after training.
        projection_head: features to embeddings.
        loss: called as ``loss(view_1, view_2)`` on two ``[batch, dim]`` tensors, with
            ``groups=labels`` if it ``needs_groups``, as the oracle does, and with what the batch
            says is known: ``labels=``, ``audit=``, ``domains=``. Its state is in every checkpoint.
        augmentation: called as ``augmentation(images, seed=...)`` on uint8 images.
        normalization: applied to views and, when features are extracted, to plain images.
        optimizer: makes the optimizer; see :mod:`bayescl_lab.images.optimizers`.
        learning_rate: the peak learning rate; after the warm-up it follows a cosine down to 0.
        weight_decay: of the optimizer.
        total_steps: steps of the whole run; the cosine ends there.
        warmup_steps: number of warm-up steps.
        joint_views: pass both views through the network in one call.
        cache_chunk: images per pass through the network, if a whole batch does not fit into memory
            (see :func:`bayescl.cached_backward`); batch normalisation then sees one chunk at a
            time. Default: all at once.
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
        optimizer: OptimizerFactory = adam,
        learning_rate: float,
        weight_decay: float = 1e-6,
        total_steps: int,
        warmup_steps: int = 0,
        joint_views: bool = False,
        cache_chunk: int | None = None,
        channels_last: bool = False,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.projection_head = projection_head
        self.loss = loss
        self.augmentation = augmentation
        self.normalization = normalization
        self.make_optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.total_steps = total_steps
        self.warmup_steps = warmup_steps
        self.joint_views = joint_views
        self.cache_chunk = cache_chunk
        self.channels_last = channels_last
        self.seed = seed
        # cached_backward differentiates by itself.
        self.automatic_optimization = cache_chunk is None

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
        """The loss of one batch; with a gradient cache, the whole step."""
        known = dict(batch.known)
        if getattr(self.loss, "needs_groups", False):
            known["groups"] = batch.labels
        views = [self.draw_views(batch.images, view, batch_idx) for view in (1, 2)]
        if self.joint_views:
            views = [torch.cat(views)]
        if self.cache_chunk is not None:
            return self._cached_step(views, known, self.cache_chunk)
        embeddings = [self.projection_head(self.encode_views(view)) for view in views]
        return self._loss_of(*embeddings, **known)

    def _loss_of(self, *embeddings: Tensor, **known: Tensor) -> Tensor:
        """The loss of the embeddings of two views, or of one tensor that holds both."""
        view_1, view_2 = embeddings[0].chunk(2) if self.joint_views else embeddings
        value: Tensor = self.loss(view_1, view_2, **known)
        return value

    def _cached_step(
        self, views: list[Tensor], known: dict[str, Tensor], chunk: int
    ) -> Float[Tensor, ""]:
        """One step that holds the graph of one chunk at a time."""
        # One of each, as configure_optimizers makes them.
        optimizer = cast("LightningOptimizer", self.optimizers())
        scheduler = cast("LRScheduler", self.lr_schedulers())
        optimizer.zero_grad()
        # One module, whose buffers are restored between the passes.
        network = nn.Sequential(self.normalization, self.encoder, self.projection_head)
        chunks = (view.split(chunk) for view in views)
        value = cached_backward(partial(self._loss_of, **known), network, *chunks)
        if self.trainer.world_size > 1:  # average gradients, as is done without a cache
            for parameter in self.parameters():
                if parameter.requires_grad:
                    if parameter.grad is None:
                        parameter.grad = torch.zeros_like(parameter)
                    torch.distributed.all_reduce(parameter.grad)
                    parameter.grad.div_(self.trainer.world_size)
        optimizer.step()
        scheduler.step()
        return value

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """The optimizer and its learning rate, updated at every step."""
        optimizer = self.make_optimizer(
            self.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay
        )
        course = partial(
            warm_up_and_cosine, warmup_steps=self.warmup_steps, total_steps=self.total_steps
        )
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, course)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }
