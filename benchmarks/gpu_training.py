"""Sections of ``gpu.py`` that train on images: the time of a step, and accuracy."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from gpu_journal import Run, times
from image_epoch import EPOCH, random_store, training_steps
from image_epoch import LOSSES as TIMED

from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.report.titles import data_title
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.run import train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

LOSSES = TIMED | {
    "debiased": LossSettings("debiased", {"tau_plus": 0.1}),
    "hard": LossSettings("hard", {"tau_plus": 0.1}),
    "oracle": LossSettings("oracle"),
}
"""The most important first."""
EPOCHS = 10


def settings_of(run: Run, loss: str, **changes: Any) -> ImageSettings:
    """Training in bfloat16, as fast as it goes; in quick runs something small."""
    settings = ImageSettings(
        loss=LOSSES[loss],
        encoder="resnet18",
        hidden_dim=512,
        batch_size=256,
        precision="bfloat16",
        channels_last=True,
        compiled=not run.quick and can_compile(run.device),
        device=run.device,
    )
    small = {"encoder": "small", "width": 4, "batch_size": 8} if run.quick else {}
    return replace(settings, **(changes | small))


def can_compile(device: str) -> bool:
    """Whether torch.compile works here; it needs a C compiler."""
    try:
        torch.compile(torch.sin)(torch.ones(2, device=device))
    except Exception:
        return False
    return True


def measure_training(run: Run) -> None:
    """Milliseconds of a whole training step with each encoder and loss."""
    store = random_store(24 if run.quick else 2048, side=8 if run.quick else 32).to(run.device)

    def measured(encoder: str, loss: str) -> dict[str, Any]:
        settings = settings_of(run, loss, encoder=encoder)
        order = EpochOrder(len(store), settings.batch_size, seed=0)
        batches = list(StoreBatches(store, order))
        model = build_model(settings, store, steps_per_epoch=len(batches))
        step = training_steps(model, batches)

        def once() -> None:
            with torch.autocast(torch.device(run.device).type, dtype=torch.bfloat16):
                step()

        for _ in range(3):  # compiles, and warms up
            once()
        found = times(once, 0.1 if run.quick else 3.0)
        seconds = EPOCH // settings.batch_size * found["median_ms"] / 1e3
        about = {"loss": loss, "compiled": settings.compiled}
        return about | found | {"seconds_per_epoch_of_cifar10": seconds}

    for encoder, loss in product(("small",) if run.quick else ("resnet50", "resnet18"), TIMED):
        run.measure(f"{encoder}, {loss}", partial(measured, encoder, loss))


def train_on_images(run: Run) -> None:
    """What ResNet-18 reaches with every loss in a few epochs, untuned, while there is time."""
    data = run.data or ("digits" if run.quick else None)
    if data is None:
        run.journal.record(run.section, "data", {"left_out": "no images: --data FOLDER"})
        return
    needs = 0.0
    for loss in LOSSES:
        row = run.measure(
            f"{loss}, {data_title(data)}", partial(train, run, data, loss), needs=needs
        )
        needs = needs if row is None or run.quick else 1.2 * EPOCHS * row["seconds_per_epoch"]


def train(run: Run, data: str, loss: str) -> dict[str, Any]:
    """What a run with one loss reaches."""
    changes = {"max_train_images": 64, "epochs": 1} if run.quick else {"epochs": EPOCHS}
    with tempfile.TemporaryDirectory() as parent:
        settings = settings_of(run, loss, data=data, **changes)
        result = train_images(settings, Path(parent) / "run")
    kept = {name: result[name] for name in ("images", "seconds_per_epoch", "probes")}
    return {"loss": loss, "epochs": settings.epochs, "compiled": settings.compiled, **kept}
