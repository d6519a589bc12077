"""Published image data sets, verified and decoded once."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torchvision import datasets

from bayescl_lab._downloads import data_folder, extract_archive, verify_file
from bayescl_lab._files import open_atomically, write_atomically
from bayescl_lab._types import Config
from bayescl_lab.images import catalog
from bayescl_lab.images.decoding import decode_into
from bayescl_lab.images.pixels import Pixels
from bayescl_lab.items.store import ItemStore


class RawImages(NamedTuple):
    """Data set in the format of its publisher, before decoding."""

    side: int  # height and width
    labels: list[int]  # counted from 0, training images first; -1 where unknown
    train: int  # number of training images
    class_names: list[str]
    blocks: Sequence[NDArray[np.uint8]] = ()  # pixels, one block of images after the other
    files: Sequence[Path] = ()  # or the image files instead

    def fill(self, pixels: NDArray[np.uint8]) -> None:
        """Write the pixels of all images."""
        if self.blocks:
            np.concatenate(self.blocks, out=pixels)
        for path, reason in decode_into(pixels, self.files).items():
            raise ValueError(f"{path} is damaged: {reason}")


def load_published(name: str) -> tuple[ItemStore, ItemStore]:
    """Load the training and test images of a published data set from the data folder.

    The pixels are decoded once to a file beside the archive, which later calls memory-map.
    """
    path = data_folder() / name / "pixels.npy"
    if not path.is_file():
        try:
            with _unpacked(name) as folder:
                _write_pixels(path, READERS[name][1](folder))
        except RuntimeError:  # of torchvision
            raise ValueError(
                f"{name} is damaged: a file is missing or has another checksum"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read {name}: {error}") from None
    pixels, notes = _map_pixels(path)
    stores = []
    for part, rows in (("train", slice(notes["train"])), ("test", slice(notes["train"], None))):
        labels = torch.tensor(notes["labels"][rows])
        ids = np.array([f"{part}/{number}" for number in range(len(labels))])
        stores.append(ItemStore(pixels[rows], labels, tuple(notes["class_names"]), name, ids=ids))
    return stores[0], stores[1]


def _write_pixels(path: Path, raw: RawImages) -> None:
    """Write a ``.npy`` file of pixels and a ``.json`` file of the other values atomically."""
    shape = (len(raw.labels), 3, raw.side, raw.side)
    try:
        with open_atomically(path) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            if hasattr(os, "posix_fallocate"):
                # Running out of space later, in mapped memory, would kill the process.
                os.posix_fallocate(file.fileno(), 0, begin + math.prod(shape))
            pixels = np.memmap(file, np.uint8, "r+", begin, shape)
            raw.fill(pixels)
            pixels.flush()
            notes = {name: getattr(raw, name) for name in ("train", "labels", "class_names")}
            # Before the pixels are moved into place, so that pixels always have notes.
            write_atomically(path.with_suffix(".json"), json.dumps(notes))
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}" if error.strerror else str(error)
        raise ValueError(message) from None


def _map_pixels(path: Path) -> tuple[Pixels, Config]:
    """Memory-map the pixels of a ``.npy`` file, and read the notes beside it.

    Writing to the pixels does not change the file.
    """
    try:
        pixels = np.load(path, mmap_mode="c", allow_pickle=False)
        notes = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if pixels.dtype != np.uint8 or pixels.ndim != 4:
            raise ValueError("it does not hold images")
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"{path} is damaged ({error}): remove it to decode the images again"
        ) from None
    return torch.from_numpy(pixels), notes


@contextmanager
def _unpacked(name: str) -> Iterator[Path]:
    """Return the folder of a data set: its verified archive, unpacked, or a copy by the user."""
    (source,) = (source for source in catalog.SOURCES if source.name == name)
    (file,) = source.files
    own, raw_folder = data_folder() / name, READERS[name][0]
    if (path := own / file.filename).is_file():
        verify_file(path, file.checksum)
        with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=own) as unpacked:
            yield extract_archive(path, Path(unpacked)) / raw_folder
    elif (copy := own / raw_folder).is_dir():
        yield copy
    else:
        raise ValueError(
            f"{name} is not in {own}: get it by 'bayescl data fetch {name}' "
            f"({file.size / 1e6:.0f} MB; {source.terms}), or put {file.filename} there"
        )


def _cifar(folder: Path) -> RawImages:
    """Read CIFAR-10 or CIFAR-100."""
    kind = datasets.CIFAR10 if folder.name == datasets.CIFAR10.base_folder else datasets.CIFAR100
    parts = [kind(folder.parent, train=train) for train in (True, False)]
    blocks = [part.data.transpose(0, 3, 1, 2) for part in parts]
    labels = [label for part in parts for label in part.targets]
    return RawImages(32, labels, len(blocks[0]), parts[0].classes, blocks)


def _stl10(folder: Path) -> RawImages:
    """Read STL-10. Unlabeled images belong to the training split."""
    parts = [datasets.STL10(folder.parent, part) for part in ("train", "unlabeled", "test")]
    labels = np.concatenate([part.labels for part in parts]).astype(np.int64)
    blocks, classes = [part.data for part in parts], parts[-1].classes
    return RawImages(96, labels.tolist(), len(labels) - len(blocks[-1]), classes, blocks)


def _tiny_imagenet(folder: Path) -> RawImages:
    """Read Tiny ImageNet. Its validation split is the test split."""
    classes = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        of_class = sorted((folder / "train" / name / "images").glob("*"))
        if not of_class:
            raise ValueError(f"{folder.name} is damaged: the class {name} has no training images")
        files += of_class
        labels += [label] * len(of_class)
    count = len(files)
    for line in _lines(folder / "val" / "val_annotations.txt"):
        file, name = line.split("\t")[:2]
        if name not in classes:
            raise ValueError(f"{folder.name} is damaged: {file} has the unknown class {name}")
        files.append(folder / "val" / "images" / file)
        labels.append(classes.index(name))

    # Two classes may share their first word.
    words = dict(line.split("\t", 1) for line in _lines(folder / "words.txt") if "\t" in line)
    first = [words.get(name, name).split(",")[0].strip() for name in classes]
    names = [
        word if first.count(word) == 1 else f"{word} ({name})"
        for word, name in zip(first, classes, strict=True)
    ]
    return RawImages(64, labels, count, names, files=files)


def _lines(file: Path) -> list[str]:
    """Return the non-empty lines of a text file."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


READERS: dict[str, tuple[str, Callable[[Path], RawImages]]] = {
    "cifar10": ("cifar-10-batches-py", _cifar),
    "cifar100": ("cifar-100-python", _cifar),
    "stl10": ("stl10_binary", _stl10),
    "tiny-imagenet": ("tiny-imagenet-200", _tiny_imagenet),
}
"""Unpacked folder and reader of each data set."""
