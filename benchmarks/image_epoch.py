"""The cost of the losses in training on images: whole steps, compared with those of InfoNCE.

    python benchmarks/image_epoch.py

Models with the same weights take turns on the same batches of random images of CIFAR-10's
size: augmentation, both views through the network, loss, gradients and Adam's step. Writes the
seconds per step, the ratio within each round, and the resulting seconds per epoch of 50,000 images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from harness import median_ratio, options, repeated, time_side_by_side, write_result

from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.store import ImageStore
from bayescl_lab.runs.captured import CapturedStep
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

LOSSES = {
    "InfoNCE": LossSettings("info_nce"),
    "Bayesian": LossSettings("bayesian", {"tau_plus": 0.1, "alpha": 0.9, "beta": 0.9}),
}
EPOCH = 50_000  # images of CIFAR-10's training part


def training_step(images: int, side: int, **settings: Any) -> Callable[[], None]:
    """A function that takes a model's next step on random images, as Lightning would."""
    chosen = ImageSettings(hidden_dim=512, **settings)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (images, 3, side, side), generator=generator).to(torch.uint8)
    labels = torch.arange(images) % 10
    store = ImageStore(pixels, labels, tuple("0123456789"), "random images").to(chosen.device)
    batches = list(StoreBatches(store, EpochOrder(images, chosen.batch_size, seed=0)))
    model = build_model(chosen, store, steps_per_epoch=len(batches)).to(store.device).train()
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


def main() -> None:
    """Measure and write."""
    chosen = options(
        __doc__,
        encoder="resnet18",
        batch_size=256,
        rounds=5,
        threads=torch.get_num_threads(),
        device="cpu",
    )
    shared = {name: getattr(chosen, name) for name in ("encoder", "batch_size", "device")}
    methods = {
        name: repeated(training_step(4 * chosen.batch_size, 32, loss=loss, **shared), 1)
        for name, loss in LOSSES.items()
    }
    measured = time_side_by_side(methods, rounds=chosen.rounds, warmup=1)
    losses = {
        name: {
            "seconds_per_step": times.median,
            "quartiles": times.quartiles,
            "seconds_per_epoch": times.median * (EPOCH // chosen.batch_size),
            "ratio_to_info_nce": median_ratio(times, measured["InfoNCE"]),
        }
        for name, times in measured.items()
    }
    ratio = losses["Bayesian"]["ratio_to_info_nce"]
    body = {**shared, "threads": chosen.threads, "rounds": chosen.rounds, "losses": losses}
    path = write_result("image-epoch", body | {"bayesian_over_info_nce": ratio})
    print(f"{losses}\nwritten to {path}")


if __name__ == "__main__":
    main()
