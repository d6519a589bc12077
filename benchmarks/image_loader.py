"""The cost of reading a folder of JPEGs: streamed, and with torchvision's ``ImageFolder``.

    python benchmarks/image_loader.py --workers 2

Writes 20,000 JPEGs of 256 x 256 pixels, noise at several scales from a fixed seed, to a temporary
folder. Both programs yield batches of 256 in random order, each image decoded and resized to 224 x
224 by Pillow's bicubic filter, as uint8: bayescl's ``stream`` loader, and ``ImageFolder`` with a
``DataLoader`` with the same number of persistent workers and default prefetching. They take turns
for two epochs, each time in a new process; one byte of every memory page of a batch is read. The
time to the first batch includes all setup. Images per second are those of the second epoch.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import apart, options, publish, usage
from PIL import Image
from rich.console import Console
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, PILToTensor, Resize

from bayescl_lab._cores import usable_cores
from bayescl_lab.images.augmentation import Normalization
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.folder import load_folder

IMAGES, SIDE, SIZE, BATCH = 20_000, 256, 224, 256
CLASSES, QUALITY = 10, 85
SCALES = {4: 30, 16: 20, 64: 20, 256: 10}
"""Standard deviation of the noise with so many cells along a side, in pixel values."""
PATTERNS = 50
"""Noises of each scale that are drawn; an image shifts and adds one of each."""
TRANSFORM = Compose([Resize(SIZE, InterpolationMode.BICUBIC), CenterCrop(SIZE), PILToTensor()])
PAGE = 2**12


def write_images(folder: Path, count: int) -> None:
    """Images that decode as photographs do: smooth areas, edges, fine grain."""
    generator = np.random.default_rng(0)

    def noise(cells: int) -> np.ndarray:
        drawn = generator.standard_normal((3, cells, cells)).astype(np.float32)
        planes = [Image.fromarray(plane).resize((SIDE, SIDE), Image.BICUBIC) for plane in drawn]
        return np.stack(planes, axis=-1) * SCALES[cells]

    patterns = [[noise(cells) for _ in range(PATTERNS)] for cells in SCALES]
    for number in range(CLASSES):
        (folder / f"class-{number}").mkdir(parents=True)
    for number in range(count):
        pixels = np.full((SIDE, SIDE, 3), 128, np.float32)
        for noises in patterns:
            shift = generator.integers(0, SIDE, 2)
            pixels += np.roll(noises[generator.integers(PATTERNS)], tuple(shift), axis=(0, 1))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        place = folder / f"class-{number % CLASSES}" / f"{number:05}.jpg"
        image.save(place, quality=QUALITY)


def streamed(folder: Path, workers: int) -> Iterable[Any]:
    """What a training run does before and in its epochs."""
    train, _, _ = load_folder(folder, image_size=SIZE, loader="stream", workers=workers)
    Normalization(train)
    return StoreBatches(train, EpochOrder(len(train), BATCH, 0))


def image_folder(folder: Path, workers: int) -> Iterable[Any]:
    """The same pixels by torchvision."""
    return DataLoader(
        ImageFolder(str(folder), TRANSFORM),
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,  # as ours
    )


PROGRAMS = {"bayescl, stream": streamed, "torchvision ImageFolder": image_folder}


def two_epochs(program: str, folder: Path, workers: int) -> dict[str, float]:
    """Seconds of the clock and the processor, and memory, from nothing."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    batches = PROGRAMS[program](folder, workers)
    times, count = [], 0
    for _ in range(2):
        for images, *_others in batches:
            times.append(time.perf_counter())
            images.flatten()[::PAGE].sum()  # reads some bytes, as whoever trains would
            count += len(images)
    middle, end = times[len(times) // 2 - 1], time.perf_counter()
    del batches, images  # its workers end, and count as children
    own, children = map(usage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "first_batch_s": times[0] - start,
        "first_epoch_s": middle - start,
        "second_epoch_s": end - middle,
        "images_per_second": count / 2 / (end - middle),
        "cpu_s": own[0] + children[0],
        "peak_gib": own[1] / 2**10,
        "worker_peak_gib": children[1] / 2**10,
    }


def same_pixels(folder: Path) -> bool:
    """Whether both programs make the same pixels of the first images of the folder."""
    train, _, _ = load_folder(folder, image_size=SIZE, loader="stream", workers=0)
    other = ImageFolder(str(folder), TRANSFORM)
    return all(torch.equal(train.take(torch.tensor([row]))[0], other[row][0]) for row in range(64))


def main() -> None:
    """Measure, print and write; with fewer ``--images`` only to try the script."""
    chosen = options(__doc__, workers=2, rounds=3, images=IMAGES)
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in PROGRAMS}
    order = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="image-loader-") as place:
        folder = Path(place)
        write_images(folder, chosen.images)
        kilobytes = [file.stat().st_size / 1000 for file in folder.rglob("*.jpg")]
        equal = same_pixels(folder)
        for number in range(chosen.rounds):
            for name in order.sample(list(PROGRAMS), len(PROGRAMS)):
                before = os.getloadavg()[0]
                figures = apart(two_epochs, name, folder, chosen.workers)
                figures["load"] = (before + os.getloadavg()[0]) / 2
                measured[name].append(figures)
                Console(stderr=True).print(number, name, figures)
    rows: list[dict[str, Any]] = []
    for name, runs in measured.items():
        medians = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        rows.append({"program": name} | medians)
    pairs = list(zip(*measured.values(), strict=True))
    publish(
        "image-loader",
        rows,
        write=chosen.images == IMAGES,
        images=chosen.images,
        image=f"{SIDE} x {SIDE}, JPEG of quality {QUALITY}",
        mean_kilobytes=statistics.fmean(kilobytes),
        resized_to=SIZE,
        batch_size=BATCH,
        workers=chosen.workers,
        same_pixels=equal,
        cores=usable_cores(),
        load_is="tasks that ran or waited on the machine, this benchmark's among them",
        rounds=measured,
        stream_over_image_folder={
            key: statistics.median(ours[key] / theirs[key] for ours, theirs in pairs)
            for key in ("images_per_second", "cpu_s", "first_epoch_s")
        },
    )


if __name__ == "__main__":
    main()
