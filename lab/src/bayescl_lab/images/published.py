"""Published image data sets, read from the data folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import datasets

from bayescl_lab._downloads import SOURCES, data_folder
from bayescl_lab.images.decoding import decode_into
from bayescl_lab.items.store import ItemStore


class RawPart(NamedTuple):
    """Training or test images."""

    pixels: NDArray[np.uint8]  # [images, channels, height, width]
    labels: Sequence[int]  # counted from 0; -1 where unknown


Raw = tuple[list[RawPart], list[str]]
"""Training and test images, and names of classes."""


def load_published(name: str) -> tuple[ItemStore, ItemStore]:
    """Load the training and test images of a published data set from the data folder.

    Raises:
        ValueError: if the data set is missing or damaged.
    """
    folder = data_folder() / name
    try:
        parts, class_names = READERS[name](folder)
    except (RuntimeError, FileNotFoundError):  # of torchvision
        source = SOURCES[name]
        raise ValueError(
            f"{name} is missing or damaged in {folder}: download it with 'bayescl data fetch "
            f"{name}' ({source.size / 1e6:.0f} MB; {source.terms}). If {source.archive.name} is "
            "there, the command only unpacks it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {name}: {error}") from None
    stores = []
    for title, part in zip(("train", "test"), parts, strict=True):
        pixels, labels = torch.from_numpy(np.ascontiguousarray(part.pixels)), list(part.labels)
        ids = np.array([f"{title}/{number}" for number in range(len(labels))])
        stores.append(ItemStore(pixels, torch.tensor(labels), tuple(class_names), name, ids=ids))
    return stores[0], stores[1]


def _cifar(kind: Any, folder: Path) -> Raw:
    """Read CIFAR-10 or CIFAR-100."""
    parts = [kind(folder, train=train) for train in (True, False)]
    return [RawPart(it.data.transpose(0, 3, 1, 2), it.targets) for it in parts], parts[0].classes


def _stl10(folder: Path) -> Raw:
    """Read STL-10. Unlabeled images belong to the training split."""
    parts = [datasets.STL10(folder, part) for part in ("train+unlabeled", "test")]
    raw = [RawPart(it.data, np.asarray(it.labels, dtype=np.int64).tolist()) for it in parts]
    return raw, parts[0].classes


def _tiny_imagenet(folder: Path) -> Raw:
    """Read Tiny ImageNet. Its validation split is the test split."""
    folder = folder / "tiny-imagenet-200"
    classes = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    train = [
        (path, label)
        for label, name in enumerate(classes)
        for path in sorted((folder / "train" / name / "images").glob("*"))
    ]
    if lacking := set(range(len(classes))) - {label for _, label in train}:
        name = classes[min(lacking)]
        raise ValueError(f"{folder.name} is damaged: the class {name} has no training images")
    test = []
    for line in _lines(folder / "val" / "val_annotations.txt"):
        file, name = line.split("\t")[:2]
        if name not in classes:
            raise ValueError(f"{folder.name} is damaged: {file} has the unknown class {name}")
        test.append((folder / "val" / "images" / file, classes.index(name)))

    # Two classes may share their first word.
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    first = [words.get(name, name).split(",")[0].strip() for name in classes]
    names = [
        word if first.count(word) == 1 else f"{word} ({name})"
        for word, name in zip(first, classes, strict=True)
    ]
    return [_decoded(part) for part in (train, test)], names


def _decoded(images: list[tuple[Path, int]]) -> RawPart:
    """Decode labeled files of 64 x 64 pixels."""
    files, labels = zip(*images, strict=True)
    pixels = np.empty((len(files), 3, 64, 64), np.uint8)
    for path, reason in decode_into(pixels, files).items():
        raise ValueError(f"{path} is damaged: {reason}")
    return RawPart(pixels, labels)


def _lines(file: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


READERS: dict[str, Callable[[Path], Raw]] = {
    "cifar10": lambda folder: _cifar(datasets.CIFAR10, folder),
    "cifar100": lambda folder: _cifar(datasets.CIFAR100, folder),
    "stl10": _stl10,
    "tiny-imagenet": _tiny_imagenet,
}
"""Reader of each data set in its folder."""
