"""One run of one method on images, in the library's own loop."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.batches import EpochOrder, ImageBatch, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.probes import run_probes
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.losses import LossSettings, losses_of
from rivals.methods import FNC, NNCLR, GloFND, PlainLoss, Rival, Step, SwAV

RIVALS: dict[str, Callable[..., Rival]] = {
    "fnc_eliminate": partial(FNC, mode="eliminate"),
    "fnc_attract": partial(FNC, mode="attract"),
    "glofnd": GloFND,
    "nnclr": NNCLR,
    "swav": SwAV,
}
"""Called with a run's number of images, the length of an embedding and the hyper-parameters."""


def build_rival(
    method: str, values: Mapping[str, Any], items: int, dim: int, seed: int = 0
) -> Rival:
    """A loss of the library or a rival, with weights of its own drawn from the run's seed."""
    if method in losses_of("images"):
        return PlainLoss(LossSettings(method, values).build())
    if method not in RIVALS:
        known = ", ".join((*losses_of("images"), *RIVALS))
        raise ValueError(f"method must be one of {known}, got {method!r}")
    with seeded(derived_seed(seed, Purpose.WEIGHTS, 1)):
        return RIVALS[method](items, dim, **values)


class RivalSimCLR(SimCLR):
    """A model's network, views, optimizer and seed, trained by a method on items' places."""

    def __init__(self, model: SimCLR, rival: Rival) -> None:
        shared = ("encoder", "projection_head", "augmentation", "normalization", "learning_rate")
        shared += ("optimizer", "weight_decay", "total_steps", "seed")
        options: dict[str, Any] = {name: getattr(model, name) for name in shared}
        super().__init__(loss=rival, **options)
        self.teacher: nn.ModuleDict | None = None
        if rival.momentum is not None:
            network = {"encoder": self.encoder, "projection_head": self.projection_head}
            self.teacher = nn.ModuleDict(copy.deepcopy(network)).requires_grad_(False)

    def training_step(self, batch: ImageBatch, batch_idx: int) -> Tensor:
        """The method's loss of one batch."""
        drawn = dict(enumerate(self.draw_views(batch.images, (1, 2), batch_idx), start=1))
        view_1, view_2 = (self.projection_head(self.encode_views(drawn[view])) for view in drawn)
        teacher = None
        if self.teacher is not None:
            teacher = partial(self._taught, batch.images, drawn, batch_idx)
        progress = self.global_step / self.total_steps
        items = batch.known["items"]
        return self.loss(Step(view_1, view_2, items, batch.labels, progress, teacher))

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
        pixels = drawn[view] if view in drawn else self.draw_views(images, (view,), step)[0]
        feature = self.teacher["encoder"](self.normalization(pixels))
        return self.teacher["projection_head"](feature)


def train_rival(shared: ImageSettings, method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Train by a method and evaluate the encoder by every probe.

    Settings are those of the library's own runs; the loss in them does not count.
    """
    parts = load_images(shared.data, **shared.choice_of_images())
    count = len(parts.train)
    order = EpochOrder(count, shared.batch_size, shared.seed)
    rival = build_rival(method, values, count, shared.embedding_dim, shared.seed)
    model = RivalSimCLR(build_model(shared, parts.train, steps_per_epoch=len(order)), rival)
    with tempfile.TemporaryDirectory() as place:
        journal = fit_in_folder(
            model,
            StoreBatches(parts.train, order, known={"items": torch.arange(count)}),
            RunFolder.create(Path(place, "run"), "benchmark images", {}),
            epochs=shared.epochs,
            device=shared.torch_device(),
            checkpoint_every=shared.epochs,
        )
    return {"scores": run_probes(model, parts), "loss": journal.rows[-1]["loss"]}
