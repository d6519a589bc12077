"""Sections of ``gpu.py`` that train on images: where a step's time goes, and accuracy.

Both also run on a CPU with ``--quick``, at a size that only shows that they work.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
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
from bayescl_lab.images.store import ImageStore
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
    small = {"encoder": "small", "width": 4, "batch_size": 8}
    return replace(settings, **changes, **(small if run.quick else {}))


def can_compile(device: str) -> bool:
    """Whether torch.compile works here; it needs a C compiler."""
    try:
        torch.compile(torch.sin)(torch.ones(2, device=device))
    except Exception:
        return False
    return True


def measure_training(run: Run) -> None:
    """Milliseconds of a training step and of its parts, with each encoder and loss."""
    store = random_store(24 if run.quick else 2048, side=8 if run.quick else 32).to(run.device)
    for encoder, loss in product(("small",) if run.quick else ("resnet50", "resnet18"), TIMED):
        settings = settings_of(run, loss, **({} if run.quick else {"encoder": encoder}))
        run.measure(f"{encoder}, {loss}", partial(step_times, run, store, settings, loss))


def step_times(run: Run, store: ImageStore, settings: ImageSettings, loss: str) -> dict[str, Any]:
    """Times of a whole step, and of its parts alone.

    The network is both views' forward pass, the backward pass from given gradients of the
    embeddings, and the optimizer's step; the loss is its own forward and backward pass.
    """
    batches = StoreBatches(store, EpochOrder(len(store), settings.batch_size, seed=0))
    model = build_model(settings, store, steps_per_epoch=len(batches)).to(run.device).train()
    optimizer = model.configure_optimizers()["optimizer"]
    batch, rows = next(iter(batches)), next(iter(batches.sampler)).to(run.device)
    views = [model.draw_views(batch.images, view, 0) for view in (1, 2)]
    autocast = torch.autocast(torch.device(run.device).type, dtype=torch.bfloat16)

    def embed() -> list[torch.Tensor]:
        with autocast:
            return [model.projection_head(model.encode_views(view)) for view in views]

    leaves = [part.detach().float().requires_grad_() for part in embed()]
    slopes = [torch.randn_like(leaf) for leaf in leaves]

    def network() -> None:
        optimizer.zero_grad()
        torch.autograd.backward([part.float() for part in embed()], slopes)
        optimizer.step()

    step = training_steps(model, [batch])

    def whole_step() -> None:
        with autocast:
            step()

    parts: dict[str, Callable[[], object]] = {
        "data": lambda: (batches.store.take(rows), batches.store.labels[rows]),
        "augmentation": lambda: [model.draw_views(batch.images, view, 0) for view in (1, 2)],
        "network": network,
        "loss": lambda: torch.autograd.grad(model.loss(*leaves), leaves),
        "whole step": whole_step,
    }
    for part in (*parts.values(), *parts.values()):  # compiles, and warms up
        part()
    milliseconds = {name: times(part, 0.5)["median_ms"] for name, part in parts.items()}
    seconds = EPOCH // settings.batch_size * milliseconds["whole step"] / 1e3
    about = {"loss": loss, "compiled": settings.compiled, "milliseconds": milliseconds}
    return about | {"seconds_per_epoch_of_cifar10": seconds}


def train_on_images(run: Run) -> None:
    """What ResNet-18 reaches with every loss in a few epochs, as many losses as there is time for.

    Batch size, temperature, optimizer and projection head are the paper's; nothing was tuned.
    """
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
