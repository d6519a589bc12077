"""The library's SimCLR with a method in place of its loss, a teacher, and items in its batches."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rivals.library import SimCLR, StoreBatches
from rivals.steps import Rival, Step


class ItemBatch(NamedTuple):
    """Some images, their labels and their places in the data set."""

    images: Tensor
    labels: Tensor
    items: Tensor


class ItemBatches(StoreBatches):
    """The library's batches, which also say what their rows are."""

    def __iter__(self) -> Iterator[ItemBatch]:
        """Yield the batches of the sampler's current epoch."""
        rows = list(self.sampler)
        for batch in super().__iter__():
            yield ItemBatch(batch.images, batch.labels, rows[self.state_dict()["batches"] - 1])


class RivalSimCLR(SimCLR):
    """Train an encoder by a method.

    Args:
        rival: the method.
        **simclr: what :class:`~bayescl_lab.images.simclr.SimCLR` takes, but the loss.
    """

    def __init__(self, *, rival: Rival, **simclr: Any) -> None:
        super().__init__(loss=rival, **simclr)
        self.teacher: nn.ModuleDict | None = None
        if rival.momentum is not None:
            network = {"encoder": self.encoder, "projection_head": self.projection_head}
            self.teacher = nn.ModuleDict(copy.deepcopy(network)).requires_grad_(False)

    @classmethod
    def in_place_of(cls, model: SimCLR, rival: Rival) -> RivalSimCLR:
        """The same network, views, optimizer and seed, trained by a method."""
        return cls(
            rival=rival,
            encoder=model.encoder,
            projection_head=model.projection_head,
            augmentation=model.augmentation,
            normalization=model.normalization,
            optimizer=model.make_optimizer,
            learning_rate=model.learning_rate,
            weight_decay=model.weight_decay,
            total_steps=model.total_steps,
            warmup_steps=model.warmup_steps,
            seed=model.seed,
        )

    def training_step(self, batch: ItemBatch, batch_idx: int) -> Tensor:
        """The method's loss of one batch."""
        drawn = {view: self.draw_views(batch.images, view, batch_idx) for view in (1, 2)}
        view_1, view_2 = (self.projection_head(self.encode_views(drawn[view])) for view in drawn)
        return self.loss(
            Step(
                view_1=view_1,
                view_2=view_2,
                items=batch.items,
                labels=batch.labels,
                progress=self.global_step / self.total_steps,
                teacher=None
                if self.teacher is None
                else partial(self._taught, batch.images, drawn, batch_idx),
            )
        )

    def on_train_batch_end(self, *_: Any) -> None:
        """Move the teacher towards the student, faster in the first steps."""
        if self.teacher is None:
            return
        momentum = min(self.loss.momentum, self.global_step / (self.global_step + 10))
        student = [*self.encoder.parameters(), *self.projection_head.parameters()]
        with torch.no_grad():
            for slow, fast in zip(self.teacher.parameters(), student, strict=True):
                slow.lerp_(fast, 1 - momentum)

    @torch.no_grad()
    def _taught(self, images: Tensor, drawn: dict[int, Tensor], step: int, view: int) -> Tensor:
        """The teacher's embeddings of a view; batch normalisation sees that view alone."""
        pixels = drawn[view] if view in drawn else self.draw_views(images, view, step)
        feature = self.teacher["encoder"](self.normalization(pixels))
        return self.teacher["projection_head"](feature)
