"""The losses on a GPU: right, how fast, and in training.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --device cpu --quick

First every loss's value and gradient on the device, in float32 and under autocast to bfloat16, are
compared with float64 on the CPU: the exit code is 1 if one is further off than ``TOLERANCE``. Then
forward and backward passes are timed at several sizes, with their peak memory, and whole training
steps of SimCLR. Writes dated files. Without a CUDA device the exit code is 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from contenders import REFERENCE, cross_entropy_info_nce, views_of_classes
from harness import options, publish
from image_epoch import EPOCH, LOSSES, training_step

import bayescl

DIM = 128
BATCHES = (256, 1024, 4096, 16_384, 65_536)
"""Items; two views make twice as many rows."""
CHECKED = (300, 4096)  # batches whose losses and gradients are compared with float64
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}
"""Largest relative error of a gradient."""
QUICK = {"batches": (64,), "checked": (40,), "encoders": ("small",), "images": (24, 8)}

Step = Callable[[list[torch.Tensor]], torch.Tensor]


def losses() -> dict[str, bayescl.ContrastiveLoss]:
    """The losses to check."""
    return {
        "InfoNCE": bayescl.InfoNCELoss(temperature=0.1),
        "debiased": bayescl.DebiasedContrastiveLoss(temperature=0.1, tau_plus=0.1),
        "hard": bayescl.HardContrastiveLoss(temperature=0.1, tau_plus=0.1),
        "Bayesian": bayescl.BayesianContrastiveLoss(temperature=0.1, tau_plus=0.1, alpha=0.9),
    }


def value_and_gradient(step: Step, views: list[torch.Tensor]) -> tuple[float, torch.Tensor]:
    """A step's value, and its gradient in float64 on the CPU."""
    leaves = [view.detach().requires_grad_() for view in views]
    value = step(leaves)
    gradients = torch.autograd.grad(value, leaves)
    return value.item(), torch.cat(gradients).double().cpu()


def unpacked(loss: Any, views: list[torch.Tensor], *, half: bool = False) -> torch.Tensor:
    """The loss of a list of views, under autocast if asked."""
    with torch.autocast(views[0].device.type, dtype=torch.bfloat16, enabled=half):
        return loss(*views)


def check(device: str, batches: tuple[int, ...]) -> list[dict[str, Any]]:
    """Errors of values and gradients on a device, against float64 on the CPU."""
    rows = []
    for batch, (name, loss) in product(batches, losses().items()):
        views = views_of_classes(batch, DIM, seed=batch)
        exact, right = value_and_gradient(partial(unpacked, loss), [v.double() for v in views])
        on_device = losses()[name].to(device)
        for dtype, tolerance in TOLERANCE.items():
            given = [view.to(device, getattr(torch, dtype)) for view in views]
            step = partial(unpacked, on_device, half=dtype == "bfloat16")
            value, gradient = value_and_gradient(step, given)
            apart = float((gradient - right).norm() / right.norm())
            row = {"loss": name, "batch": batch, "dtype": dtype, "loss_error": abs(value - exact)}
            rows.append(row | {"gradient_error": apart, "passed": apart <= tolerance})
            on_device = losses()[name].to(device)
    return rows


def milliseconds(call: Callable[[], object], seconds: float) -> float:
    """Median time of a call, with what it leaves the device to do."""
    from torch.utils import benchmark  # looks for a CUDA compiler, and says so if there is none

    timer = benchmark.Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return 1e3 * timer.blocked_autorange(min_run_time=seconds).median


def speed(device: str, batches: tuple[int, ...], seconds: float) -> list[dict[str, Any]]:
    """Time and extra memory of forward and backward, by loss and batch."""
    rows = []
    methods = {REFERENCE: cross_entropy_info_nce, **losses()}
    for batch, (name, loss) in product(batches, methods.items()):
        views = [v.to(device).requires_grad_() for v in views_of_classes(batch, DIM, seed=batch)]
        row = {"loss": name, "batch": batch, "ms": None, "extra_mib": None}
        rows.append(row)

        def once(views: Any = views, loss: Any = loss) -> None:
            torch.autograd.grad(loss(*views), views)

        try:
            once()  # compiles, and fills a memory
            if device == "cuda":
                held = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
                once()
                row["extra_mib"] = (torch.cuda.max_memory_allocated() - held) / 2**20
            row["ms"] = milliseconds(once, seconds)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()  # F.cross_entropy keeps all logits
    return rows


def training(
    device: str, encoders: tuple[str, ...], images: tuple[int, int], seconds: float
) -> list[dict[str, Any]]:
    """Time of whole steps in bfloat16, augmentation included."""
    batch_size = min(256, images[0] // 3)
    shared = {"batch_size": batch_size, "precision": "bfloat16", "device": device}
    rows = []
    for encoder, (name, loss) in product(encoders, LOSSES.items()):
        step = training_step(*images, loss=loss, encoder=encoder, channels_last=True, **shared)
        for _ in range(3):
            step()
        ms = milliseconds(step, seconds)
        epoch = EPOCH // batch_size * ms / 1e3
        rows.append({"encoder": encoder, "loss": name, "ms": ms, "seconds_per_epoch": epoch})
    return rows


def main() -> int:
    """Check, measure and write; 0 if all is right, 1 if not, 2 without the device."""
    chosen = options(__doc__, "quick", device="cuda")
    device, quick = chosen.device, chosen.quick
    if device == "cuda" and not torch.cuda.is_available():
        print("benchmarks/gpu.py measures a CUDA device, and there is none to measure.")
        return 2
    sizes = {"batches": BATCHES, "checked": CHECKED, "encoders": ("resnet50", "resnet18")}
    sizes |= {"images": (2048, 32)} | (QUICK if quick else {})
    seconds = 0.02 if quick else 1.0
    checked = check(device, sizes["checked"])
    publish("gpu-accuracy", checked, write=not quick)
    publish("gpu-speed", speed(device, sizes["batches"], seconds), write=not quick)
    trained = training(device, sizes["encoders"], sizes["images"], seconds)
    publish("gpu-training", trained, write=not quick)
    return int(not all(row["passed"] for row in checked))


if __name__ == "__main__":
    sys.exit(main())
