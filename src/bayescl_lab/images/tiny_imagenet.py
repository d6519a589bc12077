"""Tiny-ImageNet-200, decoded from its archive; its validation part serves as test part."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bayescl_lab.images.catalog import TINY_IMAGENET
from bayescl_lab.images.decoding import ImageFormat, decode_into
from bayescl_lab.images.published import RawImages, RawPart, load_published
from bayescl_lab.images.store import ImageStore

_FOLDER = "tiny-imagenet-200"
_FORMAT = ImageFormat(channels=3, height=64, width=64)


def load_tiny_imagenet() -> tuple[ImageStore, ImageStore]:
    """Training images and, as test images, the validation images of Tiny-ImageNet-200."""
    return load_published(TINY_IMAGENET, _FOLDER, _open)


@contextmanager
def _open(origin: Path) -> Iterator[RawImages]:
    """The training part has a folder per class; the test part one folder and a table of classes."""
    if origin.is_dir():
        files = (origin / "train").glob("*/images/*")
        yield _read(origin, (file.relative_to(origin).as_posix() for file in files))
    else:
        try:
            with zipfile.ZipFile(origin) as archive:
                names = (name.removeprefix(f"{_FOLDER}/") for name in archive.namelist())
                # What is in an archive is opened like any path.
                yield _read(cast("Path", zipfile.Path(archive, f"{_FOLDER}/")), names)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{origin} is damaged: {error}") from None


def _read(folder: Path, names: Iterable[str]) -> RawImages:
    """The files of both parts with their classes.

    Args:
        folder: the folder, or an archive opened as one.
        names: the files in it, training images among them. An archive would look at all its names
            to list any of its folders.
    """
    classes = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    position = {name: index for index, name in enumerate(classes)}
    by_class: dict[str, list[str]] = {name: [] for name in classes}
    for name in names:
        parts = name.split("/")
        if len(parts) == 4 and parts[::2] == ["train", "images"] and parts[3]:
            by_class.get(parts[1], []).append(name)
    for name, files in by_class.items():
        if not files:
            raise ValueError(f"{_FOLDER} is damaged: the class {name} has no training images")
    train = [(folder / file, position[name]) for name in classes for file in sorted(by_class[name])]
    table = (folder / "val" / "val_annotations.txt").read_text(encoding="utf-8")
    rows = (line.split("\t")[:2] for line in table.splitlines() if line)
    test = [(folder / "val" / "images" / file, position[name]) for file, name in rows]
    return RawImages(_part(train), _part(test), _class_names(folder, classes))


def _part(files: Sequence[tuple[Path, int]]) -> RawPart:
    """Files with their classes, to be decoded."""
    if not files:
        raise ValueError(f"{_FOLDER} is damaged: a part has no images")
    paths, labels = zip(*files, strict=True)
    shape = (len(paths), _FORMAT.channels, _FORMAT.height, _FORMAT.width)
    return RawPart(shape, np.array(labels, np.int64), partial(_fill, paths))


def _fill(paths: Sequence[Path], target: NDArray[np.uint8]) -> None:
    """Decode every file; none may be damaged, since the archive was verified."""
    skipped = decode_into(target, paths, _FORMAT)
    if skipped:
        raise ValueError(f"{skipped[0].path} is damaged: {skipped[0].reason}")


def _class_names(folder: Path, classes: Sequence[str]) -> tuple[str, ...]:
    """The first word for each class, with its number if two classes share it."""
    lines = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
    words = dict(line.split("\t", 1) for line in lines if "\t" in line)
    first = [words.get(name, name).split(",")[0].strip() for name in classes]
    often = Counter(first)
    return tuple(
        word if often[word] == 1 else f"{word} ({name})"
        for word, name in zip(first, classes, strict=True)
    )
