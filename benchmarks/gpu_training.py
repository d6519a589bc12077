"""Sections of ``gpu.py`` that train on images: speed, where the time goes, and accuracy.

Both also run on a CPU with ``--quick``, at a size that only shows that they work.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import torch
from image_epoch import LOSSES, random_store, training_steps

from bayescl.runs.folder import RunFolder
from bayescl.runs.images.model import build_model
from bayescl.runs.images.run import ImageRun, train_images
from bayescl.runs.images.settings import ImageSettings
from bayescl.runs.loop import fit_in_folder
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import load_images
from bayescl.vision.simclr import SimCLR

TARGET_SECONDS = 6.0
"""Per epoch of ResNet-50 on 50,000 images of CIFAR-10's size; the paper says 82."""
PAPER_SECONDS = 82.0


class Run(Protocol):
    """What a section needs to know of the whole benchmark."""

    quick: bool
    device: str
    data: str | None

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        ...


def speed_settings(run: Run) -> ImageSettings:
    """ResNet-50 in bfloat16, as fast as it goes; in quick runs something small."""
    settings = ImageSettings(
        loss=LOSSES["InfoNCE"],
        encoder="resnet50",
        hidden_dim=512,
        batch_size=256,
        epochs=3,
        precision="bfloat16",
        channels_last=True,
        compiled=True,
        device=run.device,
    )
    if run.quick:
        return replace(settings, encoder="small", batch_size=8, epochs=2, compiled=False)
    return settings


def measure_training(run: Run) -> dict[str, Any]:
    """Seconds per epoch with each loss, as Lightning trains, and the parts of one step."""
    count = 24 if run.quick else 50_000
    store = random_store(count, side=8 if run.quick else 32).to(run.device)
    settings = speed_settings(run)
    found: dict[str, Any] = {
        "encoder": settings.encoder,
        "images": count,
        "batch_size": settings.batch_size,
        "target_seconds_per_epoch": TARGET_SECONDS,
        "paper_seconds_per_epoch": PAPER_SECONDS,
    }
    order = EpochOrder(len(store), settings.batch_size, seed=0)
    batches = StoreBatches(store, order)
    model = build_model(settings, store, steps_per_epoch=len(order))
    for loss, chosen in LOSSES.items():
        model.loss = chosen.build()  # the network is compiled once
        with tempfile.TemporaryDirectory() as folder:
            journal = fit_in_folder(
                model,
                batches,
                RunFolder(Path(folder), "a benchmark"),
                epochs=settings.epochs,
                device=torch.device(run.device),
                precision=settings.precision,
            )
        seconds = [row["seconds"] for row in journal.rows]
        median = statistics.median(seconds[1:])  # without the first epoch, which compiles
        found[loss] = {
            "seconds_per_epoch": median,
            "first_epoch_seconds": seconds[0],
            "images_per_second": len(order) * settings.batch_size / median,
            "parts_of_a_step": step_parts(run, model, batches),
        }
    return found


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


def cifar_settings(run: Run, loss: str, epochs: int) -> ImageSettings:
    """ResNet-18 at the paper's batch size, temperature, optimizer and projection head."""
    settings = ImageSettings(
        loss=LOSSES[loss],
        data=run.data or "digits",
        encoder="resnet18",
        hidden_dim=512,
        batch_size=256,
        epochs=epochs,
        precision="bfloat16",
        channels_last=True,
        compiled=True,
        knn_every=max(1, epochs // 4),
        device=run.device,
    )
    if run.quick:
        small = {"encoder": "small", "width": 4, "max_train_images": 64, "batch_size": 32}
        return replace(settings, **small, compiled=False)
    return settings


def train_cifar10(run: Run) -> dict[str, Any]:
    """Train with InfoNCE and with the Bayesian loss for as many epochs as the budget allows.

    Both get the same number of epochs, found by timing two of them. Hyper-parameters are the
    paper's, and nothing was tuned here: the figures say what this machine reaches in that time.
    """
    if run.data is None and not run.quick:
        return {"left_out": "no folder was given: --data FOLDER"}
    began = time.monotonic()
    load_images(run.data or "digits")  # decoded once; the later runs find it in their cache
    loading = time.monotonic() - began
    with tempfile.TemporaryDirectory() as parent:
        began = time.monotonic()
        trial = cifar_settings(run, "InfoNCE", 2)
        tried = ImageRun(trial)
        folder = RunFolder(Path(parent) / "trial", "a benchmark")
        folder.path.mkdir()
        journal = fit_in_folder(
            tried.model,
            tried.batches,
            folder,
            epochs=2,
            device=tried.device,
            precision=trial.precision,
        )
        tried.probe()
        seconds = journal.rows[-1]["seconds"]
        overhead = time.monotonic() - began - seconds
        # Each run loads, compiles and is probed as the trial was; a tenth stays for surprises.
        epochs = int(0.9 * (run.left - 2 * overhead) / (2 * seconds))
        epochs = 1 if run.quick else epochs
        if epochs < 1:
            return {"left_out": f"no time: an epoch takes {seconds:.1f} s, {run.left:.0f} s left"}
        results = {}
        for loss in LOSSES:
            result = train_images(cifar_settings(run, loss, epochs), Path(parent) / loss)
            rows = RunFolder(Path(parent) / loss, "train images").read_metrics()
            results[loss] = {
                name: result[name]
                for name in ("settings", "images", "seconds_per_epoch", "loss", "probes")
            }
            results[loss]["knn_by_epoch"] = {
                int(row["epoch"]): row["knn"] for row in rows if "knn" in row
            }
    return {
        "data": Path(run.data).name if run.data else "digits",
        "note": "one seed each: no difference between the losses can be read off",
        "epochs": epochs,
        "seconds_of_loading": loading,
        "losses": results,
    }
