"""Published image data sets: found, verified, and decoded once. CIFAR is its binary version."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl_lab._downloads import data_folder, extract_archive, verify_file
from bayescl_lab.images import catalog
from bayescl_lab.images.decoding import decode_into
from bayescl_lab.images.pixel_files import Notes, map_pixels, write_pixels
from bayescl_lab.images.store import UNLABELLED, ImageStore


class RawImages(NamedTuple):
    """A data set as its publisher stores it, before decoding."""

    side: int  # height and width
    labels: list[int]  # counted from 0, training images first; -1 where unknown
    train: int  # number of training images
    class_names: list[str]
    blocks: Sequence[NDArray[np.uint8]] = ()  # pixels, one block of images after the other
    files: Sequence[Path] = ()  # or the image files instead

    def fill(self, pixels: NDArray[np.uint8]) -> Notes:
        """Write the pixels of all images, and return what to keep beside them."""
        if self.blocks:
            np.concatenate(self.blocks, out=pixels)
        for path, reason in decode_into(pixels, self.files).items():
            raise ValueError(f"{path} is damaged: {reason}")
        return {name: getattr(self, name) for name in ("train", "labels", "class_names")}


def load_published(name: str) -> tuple[ImageStore, ImageStore]:
    """Load the training and test images of a published data set from the data folder.

    The pixels are decoded beside the archive once, to a file that later calls map into memory.
    """
    path = data_folder() / name / "pixels.npy"
    if not path.is_file():
        try:
            with _unpacked(name) as folder:
                raw = READERS[name][1](folder)
                write_pixels(path, (len(raw.labels), 3, raw.side, raw.side), raw.fill)
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read {name}: {error}") from None
    pixels, notes = map_pixels(path)
    stores = []
    for part, rows in (("train", slice(notes["train"])), ("test", slice(notes["train"], None))):
        labels = torch.tensor(notes["labels"][rows])
        ids = np.array([f"{part}/{number}" for number in range(len(labels))])
        stores.append(ImageStore(pixels[rows], labels, tuple(notes["class_names"]), name, ids=ids))
    return stores[0], stores[1]


@contextmanager
def _unpacked(name: str) -> Iterator[Path]:
    """The folder of a data set as published: its verified archive unpacked, or the user's copy.

    Both are searched for in the data set's own folder and beside it.
    """
    (source,) = (source for source in catalog.SOURCES if source.name == name)
    (file,) = source.files
    own, data = data_folder() / name, data_folder()
    raw_folder, _ = READERS[name]
    for place in (own, data):
        if (path := place / file.filename).is_file():
            verify_file(path, file.checksum)
            own.mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".unpacked-", dir=own) as unpacked:
                yield extract_archive(path, Path(unpacked)) / raw_folder
            return
    copies = [path for place in (own, data) if (path := place / raw_folder).is_dir()]
    if copies:
        yield copies[0]
    else:
        raise ValueError(
            f"{name} is not in {data}: get it by 'bayescl data fetch {name}' "
            f"({file.size / 1e6:.0f} MB; {source.terms}), or put {file.filename} there"
        )


def _cifar10(folder: Path) -> RawImages:
    """Six files; a record is a label and the pixels."""
    train = [f"data_batch_{number}.bin" for number in range(1, 6)]
    return _cifar(folder, [*train, "test_batch.bin"], "batches.meta.txt", label_bytes=1)


def _cifar100(folder: Path) -> RawImages:
    """Two files; a record is a coarse label, a fine one and the pixels."""
    return _cifar(folder, ["train.bin", "test.bin"], "fine_label_names.txt", label_bytes=2)


def _cifar(folder: Path, files: Sequence[str], names: str, *, label_bytes: int) -> RawImages:
    """Records of labels, of which the last counts, and of pixels; the last file is the test."""
    class_names = _lines(folder / names)
    blocks = [_records(folder / file, label_bytes + 3 * 32 * 32) for file in files]
    labels = np.concatenate([block[:, label_bytes - 1] for block in blocks])
    if labels.max() >= len(class_names):
        raise ValueError(f"{names} is damaged: label {labels.max()} has no class name")
    pixels = [block[:, label_bytes:].reshape(-1, 3, 32, 32) for block in blocks]
    return RawImages(32, labels.tolist(), len(labels) - len(blocks[-1]), class_names, pixels)


def _stl10(folder: Path) -> RawImages:
    """Pixels, column by column, and labels from 1 in separate files; many images have no label."""
    labels: list[int] = []
    pixels = []
    for part in ("train", "unlabeled", "test"):
        images = _records(folder / f"{part}_X.bin", 3 * 96 * 96)
        pixels.append(images.reshape(-1, 3, 96, 96).transpose(0, 1, 3, 2))
        of_part = [UNLABELLED] * len(images)
        if part != "unlabeled":
            of_part = (_records(folder / f"{part}_y.bin", 1)[:, 0].astype(np.int64) - 1).tolist()
            if len(of_part) != len(images) or min(of_part) < 0:
                raise ValueError(
                    f"{part}_X.bin is damaged: {len(images)} images and {len(of_part)} labels"
                )
        labels += of_part
    names = _lines(folder / "class_names.txt")
    return RawImages(96, labels, len(pixels[0]) + len(pixels[1]), names, pixels)


def _tiny_imagenet(folder: Path) -> RawImages:
    """JPEGs, in a folder for each class or listed in a table; the validation part is the test."""
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
            raise ValueError(f"{folder.name} is damaged: {file} is of the unknown class {name}")
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
    """The non-empty lines of a text file."""
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line]


def _records(file: Path, size: int) -> NDArray[np.uint8]:
    """The records of a binary file, mapped into memory: ``[records, size]``."""
    length = file.stat().st_size
    if length == 0 or length % size:
        raise ValueError(f"{file.name} is damaged: {length} bytes are not whole records")
    return np.memmap(file, np.uint8, mode="r").reshape(-1, size)


READERS: dict[str, tuple[str, Callable[[Path], RawImages]]] = {
    "cifar10": ("cifar-10-batches-bin", _cifar10),
    "cifar100": ("cifar-100-binary", _cifar100),
    "stl10": ("stl10_binary", _stl10),
    "tiny-imagenet": ("tiny-imagenet-200", _tiny_imagenet),
}
"""The folder that the archive of each data set unpacks to, and its reader."""
