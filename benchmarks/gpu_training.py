"""Sections of ``gpu.py`` that train on images: speed, where the time goes, and accuracy.

Both also run on a CPU with ``--quick``, at a size that only shows that they work.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu_journal import Run, failure
from image_epoch import LOSSES as PROFILED
from image_epoch import random_store, training_steps

from bayescl_lab._downloads import extract_archive
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.pixel_files import cache_folder
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore
from bayescl_lab.report.titles import data_title
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.losses import LossSettings

ROOT = Path(__file__).resolve().parent.parent
ENCODERS = ("resnet50", "resnet18")
TIMED = ("InfoNCE", "Bayesian", "latent classes")
"""Losses whose seconds per epoch are measured."""
LOSSES = PROFILED | {
    "debiased": LossSettings("debiased", {"tau_plus": 0.1}),
    "hard": LossSettings("hard", {"tau_plus": 0.1}),
    "oracle": LossSettings("oracle"),
}
"""The most important first."""
FEWEST_EPOCHS = 5
"""Rather fewer losses than fewer epochs."""


def speed_settings(run: Run, encoder: str) -> ImageSettings:
    """Training in bfloat16, as fast as it goes; in quick runs something small."""
    settings = ImageSettings(
        loss=LOSSES["InfoNCE"],
        encoder=encoder,
        hidden_dim=512,
        batch_size=256,
        epochs=3,
        precision="bfloat16",
        channels_last=True,
        compiled=True,
        device=run.device,
    )
    if run.quick:
        return replace(settings, batch_size=8, epochs=2, compiled=False)
    return settings


def measure_training(run: Run) -> None:
    """Seconds per epoch with each encoder and loss, as Lightning trains, and a step's parts."""
    store = random_store(24 if run.quick else 50_000, side=8 if run.quick else 32).to(run.device)
    for encoder in ("small",) if run.quick else ENCODERS:
        measure_encoder(run, store, encoder)


def measure_encoder(run: Run, store: ImageStore, encoder: str) -> None:
    """The same for one encoder; without compilation if that fails."""
    settings = speed_settings(run, encoder)
    order = EpochOrder(len(store), settings.batch_size, seed=0)
    batches = StoreBatches(store, order)
    why_not_compiled = None
    model: SimCLR | None = None

    def measured(loss: str) -> dict[str, Any]:
        nonlocal settings, why_not_compiled, model
        if model is None:  # the network is compiled once
            model = build_model(settings, store, steps_per_epoch=len(order))
        model.loss = LOSSES[loss].build()
        try:
            seconds = epoch_seconds(model, batches, settings)
        except Exception as error:
            if not settings.compiled or isinstance(error, torch.OutOfMemoryError):
                raise
            why_not_compiled = failure(error)["error"]
            settings, model = replace(settings, compiled=False), None
            return measured(loss)
        median = statistics.median(seconds[1:])  # without the first epoch, which compiles
        return {
            "encoder": settings.encoder,
            "loss": loss,
            "images": len(store),
            "batch_size": settings.batch_size,
            "seconds_per_epoch": median,
            "first_epoch_seconds": seconds[0],
            "images_per_second": len(order) * settings.batch_size / median,
            "why_not_compiled": why_not_compiled,
            "parts_of_a_step": step_parts(run, model, batches),
        }

    needs = 0.0
    for loss in TIMED:
        found = run.measure(f"{encoder}, {loss}", partial(measured, loss), needs=needs)
        if found is not None:
            needs = (settings.epochs + 1) * found["seconds_per_epoch"]


def epoch_seconds(model: SimCLR, batches: StoreBatches, settings: ImageSettings) -> list[float]:
    """Seconds of each epoch."""
    with tempfile.TemporaryDirectory() as folder:
        journal = fit_in_folder(
            model,
            batches,
            RunFolder(Path(folder), "a benchmark"),
            epochs=settings.epochs,
            device=torch.device(settings.device),
            precision=settings.precision,
        )
    return [row["seconds"] for row in journal.rows]


def step_parts(run: Run, model: SimCLR, batches: StoreBatches) -> dict[str, Any]:
    """Milliseconds of one step's parts, each alone between two waits for the device.

    The network is both views' forward pass, the backward pass from given gradients of the
    embeddings, and the optimizer's step; the loss is its own forward and backward pass.
    """
    device = torch.device(run.device)
    model = model.to(device).train()
    optimizer = model.configure_optimizers()["optimizer"]
    batch, rows = next(iter(batches)), next(iter(batches.sampler)).to(device)
    views = [model.draw_views(batch.images, view, 0) for view in (1, 2)]
    autocast = torch.autocast(device.type, dtype=torch.bfloat16)

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
    }
    repeats = 2 if run.quick else 20
    milliseconds = {name: median_ms(part, device, repeats) for name, part in parts.items()}
    total = sum(milliseconds.values())
    return {
        "milliseconds": milliseconds,
        "shares": {name: value / total for name, value in milliseconds.items()},
        "sum_ms": total,
        "whole_step_ms": median_ms(whole_step, device, repeats),
    }


def median_ms(once: Callable[[], object], device: torch.device, repeats: int) -> float:
    """The median time of a call in milliseconds, after two that warm up."""
    times = []
    for number in range(repeats + 2):
        start = time.perf_counter()
        once()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number >= 2:
            times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def cifar_settings(run: Run, data: str, loss: str, epochs: int, *, compiled: bool) -> ImageSettings:
    """ResNet-18 at the paper's batch size, temperature, optimizer and projection head."""
    settings = ImageSettings(
        loss=LOSSES[loss],
        data=data,
        encoder="resnet18",
        hidden_dim=512,
        batch_size=256,
        epochs=epochs,
        precision="bfloat16",
        channels_last=True,
        compiled=compiled,
        knn_every=max(1, epochs // 4),
        device=run.device,
    )
    if run.quick:
        small = {"encoder": "small", "width": 4, "max_train_images": 64, "batch_size": 32}
        return replace(settings, **small, compiled=False)
    return settings


def train_cifar10(run: Run) -> None:
    """Train with every loss for as many epochs as the budget allows, equally many for each.

    Their number is found by timing two of them; if there is no time for ``FEWEST_EPOCHS``, the
    last losses are left out. Hyper-parameters are the paper's, and nothing was tuned here: the
    figures say what this machine reaches in that time.
    """
    data = "digits" if run.quick and run.data is None else find_images(run.data)
    if data is None:
        run.journal.record(run.section, "data", {"left_out": "no images: --data FOLDER"})
        return
    plan = run.measure("plan", partial(planned, run, data))
    if plan is None:
        return
    if plan["data"] != data_title(data):
        raise ValueError(f"began with {plan['data']}, now {data_title(data)}: use --anew")
    for loss in plan["losses"]:
        train = partial(train_loss, run, data, loss, plan["epochs"], compiled=plan["compiled"])
        run.measure(f"trained with {loss}", train, needs=plan["seconds_per_loss"])


def find_images(given: str | None) -> str | None:
    """The folder of images to train on, unpacked if it is an archive; None if there is none."""
    places = (os.environ.get("BAYESCL_DATA"), ROOT / "shared/data", ROOT.parent / "shared/data")
    found = [Path(place) / "cifar10-jpeg.tar.gz" for place in places if place]
    path = Path(given) if given else next((one for one in found if one.is_file()), None)
    if path is None or path.is_dir():
        return None if path is None else str(path)
    folder = cache_folder() / "unpacked" / path.name.removesuffix(".gz").removesuffix(".tar")
    return str(folder if folder.is_dir() else extract_archive(path, folder))


def planned(run: Run, data: str) -> dict[str, Any]:
    """Which losses to train, and for how many epochs, from the time that two epochs take."""
    began = time.monotonic()
    load_images(data)  # decoded once; the later runs find it in their cache
    loading = time.monotonic() - began
    compiled, why_not_compiled = True, None
    try:
        seconds, overhead = trial(cifar_settings(run, data, "InfoNCE", 2, compiled=True))
    except Exception as error:
        if run.quick or isinstance(error, torch.OutOfMemoryError):
            raise
        compiled, why_not_compiled = False, failure(error)["error"]
        seconds, overhead = trial(cifar_settings(run, data, "InfoNCE", 2, compiled=False))
    number, epochs = affordable(0.9 * run.left, seconds, overhead)  # a tenth for surprises
    if run.quick:
        number, epochs = len(LOSSES), 1
    return {
        "data": data_title(data),
        "losses": list(LOSSES)[:number],
        "epochs": epochs,
        "seconds_per_loss": 0.0 if run.quick else overhead + epochs * seconds,
        "seconds_of_loading": loading,
        "compiled": compiled,
        "why_not_compiled": why_not_compiled,
    }


def affordable(left: float, seconds: float, overhead: float) -> tuple[int, int]:
    """Number of losses, and of epochs for each.

    Args:
        left: seconds for all.
        seconds: of an epoch.
        overhead: seconds of each loss besides its epochs.

    Example:
        >>> affordable(600, 5, 20), affordable(250, 5, 20), affordable(10, 5, 20)
        ((6, 16), (5, 6), (1, 1))
    """
    for number in range(len(LOSSES), 0, -1):
        epochs = int((left / number - overhead) / seconds)
        if epochs >= FEWEST_EPOCHS:
            return number, epochs
    return 1, max(1, epochs)


def trial(settings: ImageSettings) -> tuple[float, float]:
    """Seconds of an epoch, and of everything else in a run."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as parent:
        run = ImageRun(settings)
        journal = fit_in_folder(
            run.model,
            run.batches,
            RunFolder(Path(parent), "a benchmark"),
            epochs=settings.epochs,
            device=run.device,
            precision=settings.precision,
        )
        run.probe()
    seconds = float(journal.rows[-1]["seconds"])
    return seconds, time.monotonic() - began - seconds


def train_loss(run: Run, data: str, loss: str, epochs: int, *, compiled: bool) -> dict[str, Any]:
    """What a run with one loss reaches."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "run"
        result = train_images(cifar_settings(run, data, loss, epochs, compiled=compiled), folder)
        rows = RunFolder(folder, "train images").read_metrics()
    kept = {
        name: result[name] for name in ("settings", "images", "seconds_per_epoch", "loss", "probes")
    }
    kept["settings"]["data"] = data_title(data)
    return kept | {"knn_by_epoch": {int(row["epoch"]): row["knn"] for row in rows if "knn" in row}}
