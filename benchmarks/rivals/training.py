"""One run of one method on images, in the library's own loop."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from tuned_comparison import run_in_folder

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.probes import run_probes
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.losses import LossSettings, image_losses
from rivals.fnc import FNC
from rivals.glofnd import GloFND
from rivals.steps import PlainLoss, Rival, Sizes, Step


def _from_lightly(name: str, sizes: Sizes, **values: Any) -> Rival:
    """A method that needs lightly."""
    from rivals import from_lightly

    method: Rival = getattr(from_lightly, name)(sizes, **values)
    return method


RIVALS: dict[str, Callable[..., Rival]] = {
    "fnc_eliminate": partial(FNC, mode="eliminate"),
    "fnc_attract": partial(FNC, mode="attract"),
    "glofnd": GloFND,
    "nnclr": partial(_from_lightly, "NNCLR"),
    "swav": partial(_from_lightly, "SwAV"),
}
"""Called with a run's :class:`~rivals.steps.Sizes` and the method's hyper-parameters."""


@dataclass(frozen=True)
class RivalSettings:
    """Everything that shapes one run.

    Attributes:
        method: a loss of the library, or a key of :data:`RIVALS`.
        values: its hyper-parameters.
        shared: the settings of the library's own runs; the loss in them does not count.
    """

    method: str
    values: Mapping[str, Any] = field(default_factory=dict)
    shared: ImageSettings = field(
        default_factory=lambda: ImageSettings(loss=LossSettings("info_nce"))
    )

    @property
    def epochs(self) -> int:
        """Epochs of the run."""
        return self.shared.epochs

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.shared.seed

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""
        shared = self.shared.as_config()
        for name in ("loss", *self.shared.loss.resolved()):
            del shared[name]
        return {"method": self.method, "values": dict(self.values), **shared}


def build_rival(settings: RivalSettings, sizes: Sizes) -> Rival:
    """The method of a run, with weights of its own drawn from the run's seed.

    Raises:
        ValueError: if the method is unknown or does not take a value.
    """
    if settings.method in image_losses():
        return PlainLoss(LossSettings(settings.method, settings.values).build())
    if settings.method not in RIVALS:
        known = ", ".join((*image_losses(), *RIVALS))
        raise ValueError(f"method must be one of {known}, got {settings.method!r}")
    with seeded(derived_seed(settings.seed, Purpose.WEIGHTS, 1)):
        return RIVALS[settings.method](sizes, **settings.values)


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


def train_rival(
    settings: RivalSettings,
    out: Path,
    *,
    progress: Callable[[int, float], None] | None = None,
    **_: object,
) -> dict[str, Any]:
    """Train by a method and evaluate the encoder by every probe; a broken run starts anew.

    Args:
        settings: the settings of the run.
        out: the run folder.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds.

    Raises:
        ValueError: if ``out`` holds another run.
    """
    shared = settings.shared

    def work(folder: RunFolder) -> dict[str, Any]:
        parts = load_images(
            shared.data, evaluate_on=shared.evaluate_on, **shared.choice_of_images()
        )
        order = EpochOrder(len(parts.train), shared.batch_size, shared.seed)
        plain = replace(shared, loss=LossSettings("info_nce"))
        model = RivalSimCLR.in_place_of(
            build_model(plain, parts.train, steps_per_epoch=len(order)),
            build_rival(settings, Sizes(len(parts.train), shared.embedding_dim)),
        )
        journal = fit_in_folder(
            model,
            ItemBatches(parts.train, order),
            folder,
            epochs=shared.epochs,
            device=shared.torch_device(),
            checkpoint_every=shared.epochs,
            progress=progress,
        )
        shutil.rmtree(folder.checkpoint.parent)  # lightly's queue is not in a checkpoint
        return {
            "scores": run_probes(model, parts),
            "seconds_per_epoch": journal.seconds_per_epoch(),
            "loss": journal.rows[-1]["loss"],
        }

    return run_in_folder(settings, out, "benchmark images", work)
