"""STL-10: few images with a label, many without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayescl_lab.images.catalog import STL10
from bayescl_lab.images.published import (
    Members,
    RawImages,
    RawPart,
    load_published,
    open_members,
    read_names,
)
from bayescl_lab.images.store import UNLABELLED, ImageStore

_SHAPE = (3, 96, 96)
_PIXELS = 3 * 96 * 96
_AT_ONCE = 1000  # images


def load_stl10() -> tuple[ImageStore, ImageStore]:
    """Training images (unlabelled ones last) and test images of STL-10."""
    return load_published(STL10, "stl10_binary", _open)


@contextmanager
def _open(origin: Path) -> Iterator[RawImages]:
    """Pixels and labels in separate files; labels count from 1."""
    with open_members(origin, "stl10_binary") as members:
        yield RawImages(
            _part(members, "train", "unlabeled_X.bin"),
            _part(members, "test"),
            read_names(members, "class_names.txt"),
        )


def _part(members: Members, name: str, *unlabelled: str) -> RawPart:
    """Images with labels, and those of further files without."""
    with members.open(f"{name}_y.bin") as content:
        labels = np.frombuffer(content.read(), np.uint8).astype(np.int64) - 1
    files = [f"{name}_X.bin", *unlabelled]
    counts = [_count(members, file) for file in files]
    if counts[0] != len(labels) or labels.min() < 0:
        raise ValueError(f"{files[0]} is damaged: {counts[0]} images and {len(labels)} labels")
    total = sum(counts)
    labels = np.concatenate([labels, np.full(total - len(labels), UNLABELLED)])
    return RawPart((total, *_SHAPE), labels, partial(_fill, members, files))


def _count(members: Members, file: str) -> int:
    """Number of images in a file."""
    count, rest = divmod(members.size(file), _PIXELS)
    if rest or not count:
        raise ValueError(f"{file} is damaged: {members.size(file)} bytes are not whole images")
    return count


def _fill(members: Members, files: list[str], target: NDArray[np.uint8]) -> None:
    """Write the images of several files one after the other; theirs lie column by column."""
    row = 0
    for file in files:
        with members.open(file) as content:
            while block := content.read(_AT_ONCE * _PIXELS):
                images = np.frombuffer(block, np.uint8).reshape(-1, *_SHAPE)
                target[row : row + len(images)] = images.transpose(0, 1, 3, 2)
                row += len(images)
