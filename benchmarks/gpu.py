"""The losses on a GPU: right, how fast, and in training, in two minutes.

    python benchmarks/gpu.py
    python benchmarks/gpu.py --device cpu --quick

First every loss's value and gradient on the device, in float32 and under autocast to 16 bits, are
compared with float64 on the CPU, for the same rounded embeddings: the exit code is 1 if one is
further off than ``TOLERANCE``. Then forward and backward passes, and training steps of a ResNet,
take turns, so that drift affects all of them equally. Both engines are measured. Writes dated files
below ``--out``. Without a CUDA device the exit code is 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import harness
import torch
from contenders import REFERENCE, cross_entropy_info_nce, views_of_classes
from harness import median_ratio, options, publish, repeated, time_side_by_side

import bayescl
from bayescl_lab.items.batches import EpochOrder, StoreBatches
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.store import ItemStore
from bayescl_lab.runs.captured import CapturedStep
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

DIM = 128
BATCHES = (256, 1024, 4096, 16_384)
"""Items; two views make twice as many rows."""
CHECKED = (300, 2048)  # batches whose losses and gradients are compared with float64
TEMPERATURES = (0.05, 0.1, 0.2, 0.5)
TOLERANCE = {"float32": 3e-4, "bfloat16": 5e-3, "float16": 2e-3}
"""Largest relative error of a value or a gradient. Gradients have the precision of the inputs; in
float32, the differences of the hard loss cancel."""
ROWS_TIMED = 2**17  # rows that a method computes between two readings of the clock
STEPS_TIMED = 10  # the same for steps

LOSSES = {
    "InfoNCE": LossSettings("info_nce"),
    "Bayesian": LossSettings("bayesian", {"tau_plus": 0.1, "alpha": 0.9, "beta": 0.9}),
}
EPOCH = 50_000  # images of CIFAR-10's training split

Known = dict[str, torch.Tensor]
Call = Callable[..., torch.Tensor]


def losses(
    temperature: float = 0.1, engine: Any = "auto"
) -> dict[str, tuple[bayescl.ContrastiveLoss, tuple[str, ...]]]:
    """The losses to check, each with the arguments that it is given."""
    shared: dict[str, Any] = {"temperature": temperature, "engine": engine}
    options: dict[str, Any] = {**shared, "positive_share": 0.5}
    prior = {"tau_plus": 0.1, **options}
    nce, bayesian = bayescl.InfoNCELoss(**options), bayescl.BayesianContrastiveLoss(**prior)
    return {
        "InfoNCE": (nce, ()),
        "debiased": (bayescl.DebiasedContrastiveLoss(**prior), ()),
        "hard": (bayescl.HardContrastiveLoss(**prior), ()),
        "Bayesian": (bayesian, ()),
        "oracle": (bayescl.OracleContrastiveLoss(**options), ("groups",)),
        "SupCon": (bayescl.SupervisedContrastiveLoss(**shared), ("labels",)),
        "InfoNCE, domains": (nce, ("domains",)),
        "InfoNCE, teacher": (nce, ("teacher",)),
        "Bayesian, teacher": (bayesian, ("teacher",)),
    }


def batch_of(batch: int) -> tuple[list[torch.Tensor], Known]:
    """Two views, and what a loss may know of their items."""
    views = views_of_classes(batch, DIM, seed=batch)
    codes = torch.arange(batch) % 2
    return views, {"teacher": views[0].roll(1, 0), **dict.fromkeys(_CODES, codes)}


_CODES = ("groups", "labels", "domains")


def value_and_gradient(
    call: Call, views: list[torch.Tensor], scale: float = 1.0
) -> tuple[float, torch.Tensor]:
    """A loss's value, and the gradient of ``scale`` times it, in float64 on the CPU."""
    leaves = [view.detach().requires_grad_() for view in views]
    value = call(*leaves)
    gradients = torch.autograd.grad(value * scale, leaves)
    return value.item(), torch.cat(gradients).double().cpu()


def check(
    device: str, batches: tuple[int, ...], engines: tuple[str, ...] = ("auto",)
) -> list[dict[str, Any]]:
    """Errors of values and gradients on a device, against float64 on the CPU."""
    rows = []
    kind = torch.device(device).type
    for batch, temperature, engine, (name, half) in product(
        batches, TEMPERATURES, engines, product(losses(), TOLERANCE)
    ):
        loss, names = losses(temperature, engine)[name]
        exact_loss, _ = losses(temperature, "blocked")[name]
        views, known = batch_of(batch)
        dtype = getattr(torch, half)
        rounded = [view.to(dtype) for view in views]
        exactly = {key: known[key].double() if key == "teacher" else known[key] for key in names}
        exact, right = value_and_gradient(
            partial(exact_loss, **exactly), [view.double() for view in rounded]
        )
        # As with a gradient scaler: float16 has no tiny numbers.
        scale = float(right.numel() ** 0.5 / right.norm())
        there = {key: known[key].to(device) for key in names}
        with torch.autocast(kind, dtype, enabled=half != "float32"):
            value, gradient = value_and_gradient(
                partial(loss, **there), [view.to(device) for view in rounded], scale
            )
        errors = {
            "loss_error": abs(value / exact - 1),
            "gradient_error": float((gradient / scale - right).norm() / right.norm()),
        }
        row = {"loss": name, "batch": batch, "temperature": temperature, "engine": engine}
        passed = max(errors.values()) <= TOLERANCE[half]
        rows.append(row | {"dtype": half, **errors, "passed": passed})
    return rows


def speed(device: str, batches: tuple[int, ...], rounds: int) -> list[dict[str, Any]]:
    """Time and extra memory of forward and backward, by loss, engine and batch."""
    rows = []
    engines = {"": "blocked", ", fused": "fused"} if device == "cuda" else {"": "blocked"}
    for batch in batches:
        views, known = batch_of(batch)
        leaves = [view.to(device).requires_grad_() for view in views]

        def passes(call: Call, leaves: list[torch.Tensor] = leaves) -> None:
            torch.autograd.grad(call(*leaves), leaves)

        calls: dict[str, Call] = {REFERENCE: cross_entropy_info_nce}
        for suffix, engine in engines.items():
            for name, (loss, names) in losses(engine=engine).items():
                there = {key: known[key].to(device) for key in names}
                calls[name + suffix] = partial(loss, **there)
        memory = {name: extra_mib(partial(passes, call), device) for name, call in calls.items()}
        times = max(1, ROWS_TIMED // (2 * batch)) if rounds > 1 else 1
        timed = {name: repeated(partial(passes, call), times) for name, call in calls.items()}
        measured = time_side_by_side(timed, rounds=rounds, warmup=1)
        rows += [
            {
                "loss": name,
                "batch": batch,
                "ms": 1e3 * one.median / times,
                "ratio_to_info_nce": median_ratio(one, measured["InfoNCE"]),
                "extra_mib": memory[name],
            }
            for name, one in measured.items()
        ]
    return rows


def extra_mib(call: Callable[[], object], device: str) -> float | None:
    """Peak memory of a call beyond what is held before it; None on a CPU."""
    if device != "cuda":
        return None
    call()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    return (torch.cuda.max_memory_allocated() - held) / 2**20


def training(
    device: str, encoder: str, images: tuple[int, int], rounds: int
) -> list[dict[str, Any]]:
    """Time of whole steps in bfloat16, augmentation included; with and without a teacher."""
    batch_size = min(256, images[0] // 3)
    shared: dict[str, Any] = {"batch_size": batch_size, "precision": "bfloat16", "device": device}
    shared |= {"encoder": encoder, "channels_last": True, "augmentation": "simclr"}
    kinds = [("", 1.0), (", teacher", 0.5)]
    modes = [("", False), (", captured", True)] if device == "cuda" else [("", False)]
    times = STEPS_TIMED if rounds > 1 else 1
    steps = {}
    for (loss, chosen), (kind, share), (mode, captured) in product(LOSSES.items(), kinds, modes):
        own = {"loss": chosen, "positive_share": share, "captured": captured}
        steps[f"{loss}{kind}{mode}"] = repeated(training_step(*images, **shared, **own), times)
    measured = time_side_by_side(steps, rounds=rounds, warmup=1)
    return [
        {
            "encoder": encoder,
            "step": name,
            "ms": 1e3 * one.median / times,
            "ratio_to_info_nce": median_ratio(one, measured["InfoNCE"]),
            "seconds_per_epoch": EPOCH // batch_size * one.median / times,
        }
        for name, one in measured.items()
    ]


class RandomRun(ImageRun):
    """A run on given images without evaluation."""

    def __init__(self, settings: ImageSettings, store: ItemStore) -> None:
        self.store = store
        super().__init__(settings)

    def load_parts(self, item_shape: Any, *, split: bool) -> Parts:
        """Return the images for training."""
        del item_shape, split
        return Parts(self.store, None)


def random_images(images: int, side: int) -> ItemStore:
    """Random images of ten classes."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, side, side), generator=generator).to(torch.uint8)
    return ItemStore(pixels, torch.arange(images) % 10, tuple("0123456789"), "random images")


def training_step(images: int, side: int, **settings: Any) -> Callable[[], None]:
    """A function that takes a model's next step on random images, as Lightning would."""
    chosen = ImageSettings(hidden_dim=512, **settings)
    store = random_images(images, side).to(chosen.device)
    batches = list(StoreBatches(store, EpochOrder(images, chosen.batch_size, seed=0)))
    model = RandomRun(chosen, store).model.to(store.device).train()
    optimizers = model.configure_optimizers()
    optimizer, scheduler = optimizers["optimizer"], optimizers["lr_scheduler"]["scheduler"]
    if chosen.captured:
        model.captured = CapturedStep(model)
    half = chosen.precision == "bfloat16"
    done = 0

    def step() -> None:
        nonlocal done
        optimizer.zero_grad()
        with torch.autocast(store.device.type, dtype=torch.bfloat16, enabled=half):
            model.training_step(batches[done % len(batches)], done).backward()
        optimizer.step()
        scheduler.step()
        done += 1

    return step


def main() -> int:
    """Check, measure and write; 0 if all is right, 1 if not, 2 without the device."""
    chosen = options(__doc__, "quick", device="cuda", out=str(harness.RESULTS))
    device, quick = chosen.device, chosen.quick
    if device == "cuda" and not torch.cuda.is_available():
        print("benchmarks/gpu.py measures a CUDA device, and there is none to measure.")
        return 2
    harness.RESULTS = Path(chosen.out)
    engines = ("blocked", "fused") if device == "cuda" else ("blocked",)
    checked = check(device, (40,) if quick else CHECKED, engines)
    publish("gpu-accuracy", checked, write=not quick)
    encoder, sizes = ("small", (24, 16)) if quick else ("resnet18", (2560, 32))
    publish("gpu-training", training(device, encoder, sizes, 1 if quick else 5), write=not quick)
    batches, rounds = ((64,), 1) if quick else (BATCHES, 5)
    publish("gpu-speed", speed(device, batches, rounds), write=not quick)
    return int(not all(row["passed"] for row in checked))


if __name__ == "__main__":
    sys.exit(main())
