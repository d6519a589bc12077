"""CIFAR-10 and CIFAR-100 in their binary version, without unpickling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayescl_lab.images.catalog import CIFAR10, CIFAR100
from bayescl_lab.images.published import (
    Members,
    RawImages,
    RawPart,
    load_published,
    open_members,
    read_names,
)
from bayescl_lab.images.store import ImageStore

_SHAPE = (3, 32, 32)
_PIXELS = 3 * 32 * 32


def load_cifar10() -> tuple[ImageStore, ImageStore]:
    """Training and test images of CIFAR-10."""
    return load_published(CIFAR10, "cifar-10-batches-bin", _open_cifar10)


def load_cifar100() -> tuple[ImageStore, ImageStore]:
    """Training and test images of CIFAR-100, with its 100 fine classes."""
    return load_published(CIFAR100, "cifar-100-binary", _open_cifar100)


@contextmanager
def _open_cifar10(origin: Path) -> Iterator[RawImages]:
    """Six files; a record is a label and the pixels."""
    with open_members(origin, "cifar-10-batches-bin") as members:
        names = read_names(members, "batches.meta.txt")
        files = [f"data_batch_{number}.bin" for number in range(1, 6)]
        yield RawImages(
            _read(members, files, names, label_bytes=1),
            _read(members, ["test_batch.bin"], names, label_bytes=1),
            names,
        )


@contextmanager
def _open_cifar100(origin: Path) -> Iterator[RawImages]:
    """Two files; a record is a coarse label, a fine one and the pixels."""
    with open_members(origin, "cifar-100-binary") as members:
        names = read_names(members, "fine_label_names.txt")
        yield RawImages(
            _read(members, ["train.bin"], names, label_bytes=2),
            _read(members, ["test.bin"], names, label_bytes=2),
            names,
        )


def _read(
    members: Members, files: list[str], class_names: tuple[str, ...], *, label_bytes: int
) -> RawPart:
    """The records of some files; the last byte before the pixels is the label."""
    blocks = []
    for file in files:
        with members.open(file) as content:
            block = np.frombuffer(content.read(), np.uint8)
        if len(block) == 0 or len(block) % (label_bytes + _PIXELS):
            raise ValueError(f"{file} is damaged: {len(block)} bytes are not whole records")
        blocks.append(block.reshape(-1, label_bytes + _PIXELS))
    records = np.concatenate(blocks)
    labels = records[:, label_bytes - 1].astype(np.int64)
    if labels.max() >= len(class_names):
        raise ValueError(f"{files[0]} is damaged: label {labels.max()} has no class name")
    pixels = records[:, label_bytes:].reshape(-1, *_SHAPE)
    return RawPart((len(pixels), *_SHAPE), labels, partial(_fill, pixels))


def _fill(pixels: NDArray[np.uint8], target: NDArray[np.uint8]) -> None:
    """Write the pixels into an array."""
    target[:] = pixels
