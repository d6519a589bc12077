"""The cost of the losses in training on images: whole steps, compared with those of InfoNCE.

    python benchmarks/image_epoch.py

SimCLR models with the same weights take turns on the same batches of random images of CIFAR-10's
size: augmentation, both views through the network, loss, gradients and Adam's step. Writes the
seconds per step, the ratio within each round, and the resulting seconds per epoch of 50,000 images.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from harness import median_ratio, time_side_by_side, write_result

from bayescl_lab.images.batches import EpochOrder, ImageBatch, StoreBatches
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

LOSSES = {
    "InfoNCE": LossSettings("info_nce"),
    "Bayesian": LossSettings("bayesian", {"tau_plus": 0.1, "alpha": 0.9, "beta": 0.9}),
    "latent classes": LossSettings("latent", {"tau_plus": 0.1}),
}
EPOCH = 50_000
"""Images of CIFAR-10's training part."""
BOUND = 1.05


def random_store(count: int, *, side: int = 32, seed: int = 0) -> ImageStore:
    """Random images in ten classes."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, side, side), generator=generator).to(torch.uint8)
    return ImageStore(images, torch.arange(count) % 10, tuple("0123456789"), "random images")


def training_steps(model: SimCLR, batches: list[ImageBatch]) -> Callable[[], None]:
    """A function that takes the model's next step, as Lightning would."""
    device = batches[0].images.device
    model = model.to(device).train()
    chosen = model.configure_optimizers()
    optimizer, scheduler = chosen["optimizer"], chosen["lr_scheduler"]["scheduler"]
    done = 0

    def step() -> None:
        nonlocal done
        optimizer.zero_grad()
        model.training_step(batches[done % len(batches)], done).backward()
        optimizer.step()
        scheduler.step()
        done += 1
        if device.type == "cuda":
            torch.cuda.synchronize()

    return step


def main(arguments: list[str] | None = None) -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--encoder", default="resnet18")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    warmup = 1
    store = random_store(4 * options.batch_size).to(options.device)
    order = EpochOrder(len(store), options.batch_size, seed=0)
    batches = list(StoreBatches(store, order))
    methods = {}
    for name, loss in LOSSES.items():
        settings = ImageSettings(
            loss=loss, encoder=options.encoder, batch_size=options.batch_size, hidden_dim=512
        )
        model = build_model(settings, store, steps_per_epoch=len(batches))
        methods[name] = training_steps(model, batches)
    measured = time_side_by_side(methods, rounds=options.rounds, warmup=warmup)
    steps = EPOCH // options.batch_size
    ratio, latent_ratio = (
        median_ratio(measured[name], measured["InfoNCE"]) for name in ("Bayesian", "latent classes")
    )
    path = write_result(
        "image-epoch",
        shlex.join(["python", "benchmarks/image_epoch.py", *sys.argv[1:]]),
        {
            "encoder": options.encoder,
            "batch_size": options.batch_size,
            "device": options.device,
            "threads": options.threads,
            "rounds": options.rounds,
            "losses": {
                name: {
                    "seconds_per_step": one.median,
                    "quartiles": one.quartiles,
                    "seconds_per_epoch": one.median * steps,
                }
                for name, one in measured.items()
            },
            "seconds_per_epoch_are": f"{steps} times the median step",
            "bayesian_over_info_nce": ratio,
            "latent_over_info_nce": latent_ratio,
            "bound": BOUND,
        },
    )
    for name, one in measured.items():
        print(f"{name}: {one.median:.3f} s per step, {one.median * steps:.0f} s per epoch")
    print(f"Bayesian / InfoNCE: {ratio:.3f}, latent classes / InfoNCE: {latent_ratio:.3f}")
    print(f"bound {BOUND}; written to {path.name}")


if __name__ == "__main__":
    main()
