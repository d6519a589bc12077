"""The section of ``gpu.py`` that trains on images: the time of a step."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import torch
from gpu_journal import Run, times
from image_epoch import EPOCH, LOSSES, random_store, training_steps

from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings


def can_compile(device: str) -> bool:
    """Whether torch.compile works here; it needs a C compiler."""
    try:
        torch.compile(torch.sin)(torch.ones(2, device=device))
    except Exception:
        return False
    return True


def measure_training(run: Run) -> None:
    """Milliseconds of a whole training step in bfloat16 with each encoder and loss."""
    store = random_store(24 if run.quick else 2048, side=8 if run.quick else 32).to(run.device)
    batch_size, compiled = (8, False) if run.quick else (256, can_compile(run.device))

    def measured(encoder: str, loss: str) -> dict[str, Any]:
        settings = ImageSettings(
            loss=LOSSES[loss],
            encoder=encoder,
            width=4,  # of the small encoder, in quick runs
            hidden_dim=512,
            batch_size=batch_size,
            precision="bfloat16",
            channels_last=True,
            compiled=compiled,
            device=run.device,
        )
        batches = list(StoreBatches(store, EpochOrder(len(store), batch_size, seed=0)))
        model = build_model(settings, store, steps_per_epoch=len(batches))
        step = training_steps(model, batches)

        def once() -> None:
            with torch.autocast(torch.device(run.device).type, dtype=torch.bfloat16):
                step()

        for _ in range(3):  # compiles, and warms up
            once()
        measured = times(once, 0.1 if run.quick else 3.0)
        seconds = EPOCH // batch_size * measured["median_ms"] / 1e3
        about = {"loss": loss, "compiled": compiled}
        return about | measured | {"seconds_per_epoch_of_cifar10": seconds}

    for encoder, loss in product(("small",) if run.quick else ("resnet50", "resnet18"), LOSSES):
        run.measure(f"{encoder}, {loss}", partial(measured, encoder, loss))
