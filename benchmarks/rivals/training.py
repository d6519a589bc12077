"""One run of one method on images."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rivals.fnc import FNC
from rivals.glofnd import GloFND
from rivals.library import (
    LOSSES,
    EpochOrder,
    ImageSettings,
    LossSettings,
    Purpose,
    RunFolder,
    build_model,
    derived_seed,
    fit_in_folder,
    load_images,
    provenance,
    run_probes,
    seeded,
)
from rivals.model import ItemBatches, RivalSimCLR
from rivals.nnclr import NNCLR
from rivals.plain import PlainLoss
from rivals.steps import Rival, Sizes
from rivals.swav import SwAV

KIND = "benchmark images"
"""The kind of run folder."""


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

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""
        shared = self.shared.as_config()
        for name in ("loss", *self.shared.loss.resolved()):
            del shared[name]
        return {"method": self.method, "values": dict(self.values), **shared}


RIVALS: dict[str, Callable[..., Rival]] = {
    "fnc_eliminate": partial(FNC, mode="eliminate"),
    "fnc_attract": partial(FNC, mode="attract"),
    "glofnd": GloFND,
    "nnclr": NNCLR,
    "swav": SwAV,
}
"""Called with a run's :class:`~rivals.steps.Sizes` and the method's hyper-parameters."""


def build_rival(settings: RivalSettings, sizes: Sizes) -> Rival:
    """The method of a run, with weights of its own drawn from the run's seed.

    Raises:
        ValueError: if the method is unknown or does not take a value.
    """
    if settings.method in LOSSES:
        return PlainLoss(LossSettings(settings.method, settings.values).build())
    if settings.method not in RIVALS:
        known = ", ".join((*LOSSES, *RIVALS))
        raise ValueError(f"method must be one of {known}, got {settings.method!r}")
    with seeded(derived_seed(settings.shared.seed, Purpose.WEIGHTS, 1)):
        return RIVALS[settings.method](sizes, **settings.values)


def train_rival(
    settings: RivalSettings,
    out: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> dict[str, Any]:
    """Train by a method, judge the encoder by every probe and write both into a run folder.

    Args:
        settings: the settings of the run.
        out: the run folder.
        resume: whether a folder may be there. A finished run is merely read; a broken one starts
            anew, as lightly's queue is not in a checkpoint.
        checkpoint_every: not used; there is one checkpoint, at the end, and it is removed.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds.

    Raises:
        ValueError: if ``out`` holds another run.
    """
    del checkpoint_every
    origin = provenance()
    if resume:
        folder = RunFolder.open(out, KIND)
        if folder.config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        shutil.rmtree(out)
    shared = settings.shared
    parts = load_images(shared.data, evaluate_on=shared.evaluate_on, **shared.choice_of_images())
    order = EpochOrder(len(parts.train), shared.batch_size, shared.seed)
    plain = replace(shared, loss=LossSettings("info_nce"))
    model = RivalSimCLR.in_place_of(
        build_model(plain, parts.train, steps_per_epoch=len(order)),
        build_rival(settings, Sizes(len(parts.train), shared.embedding_dim)),
    )
    folder = RunFolder.create(out, KIND, settings.as_config())
    start = time.perf_counter()
    journal = fit_in_folder(
        model,
        ItemBatches(parts.train, order),
        folder,
        epochs=shared.epochs,
        device=shared.torch_device(),
        checkpoint_every=shared.epochs,
        progress=progress,
    )
    shutil.rmtree(folder.checkpoint.parent)
    probes = run_probes(model, parts)
    result = {
        "settings": settings.as_config(),
        "seed": shared.seed,
        "scores": probes,
        "seconds": round(time.perf_counter() - start, 2),
        "seconds_per_epoch": journal.seconds_per_epoch(),
        "loss": journal.rows[-1]["loss"],
        **origin,
    }
    folder.write_result(result)
    return result
