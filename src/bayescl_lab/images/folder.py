"""Find image files in a folder, with their classes and parts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bayescl_lab.images.decoding import SUFFIXES
from bayescl_lab.images.store import UNLABELLED

TRAIN_FOLDER = "train"
TEST_FOLDERS = ("test", "val", "validation", "valid")
"""Names of the test part; the first that exists is used."""


@dataclass(frozen=True)
class ImageFiles:
    """Image files with their classes, in the order of their names.

    Attributes:
        files: the files.
        labels: the class of each, counted from 0; -1 where unknown.
        class_names: the folders that hold images, ascending; empty without class folders.
        empty_classes: class folders without images, which do not count as classes.
    """

    files: tuple[Path, ...]
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    empty_classes: tuple[str, ...] = ()

    def with_classes(self, class_names: tuple[str, ...]) -> ImageFiles:
        """The same files, with labels that count a larger set of class names."""
        position = {name: index for index, name in enumerate(class_names)}
        table = np.array([position[name] for name in self.class_names], dtype=np.int64)
        labels = table[self.labels] if len(table) else self.labels
        return ImageFiles(self.files, labels, class_names, self.empty_classes)


def find_parts(folder: Path) -> tuple[ImageFiles, ImageFiles | None]:
    """Find the image files of a folder and of its test part, if it has one.

    The folder holds images in one subfolder per class or without subfolders, or a folder ``train``
    and optionally ``test`` (or ``val``) of that form. Hidden files and other files are skipped.

    Args:
        folder: where the images are.

    Returns:
        Training files and test files, with labels that count the same classes; None if there is no
        test part.

    Raises:
        ValueError: if there are no images, images lie both in class folders and beside them, only
            one part is labelled, or the test part has a class that training lacks.
    """
    train_folder = folder / TRAIN_FOLDER
    if not train_folder.is_dir():
        return find_images(folder), None
    train = find_images(train_folder)
    test_folder = next((folder / name for name in TEST_FOLDERS if (folder / name).is_dir()), None)
    if test_folder is None:
        return train, None
    test = find_images(test_folder)
    if bool(train.class_names) != bool(test.class_names):
        raise ValueError(f"{folder}: one of train and {test_folder.name} has no class folders")
    unknown = [name for name in test.class_names if name not in train.class_names]
    if unknown:
        raise ValueError(
            f"{test_folder} has classes that {train_folder} lacks: {', '.join(unknown[:5])}"
        )
    return train, test.with_classes(train.class_names)


def find_images(folder: Path) -> ImageFiles:
    """Find the image files of one folder, with or without one subfolder per class.

    Raises:
        ValueError: if there are none, or images lie both in class folders and beside them.
    """
    try:
        with os.scandir(folder) as content:
            entries = sorted(content, key=lambda entry: entry.name)
        loose = [
            folder / entry.name for entry in entries if entry.is_file() and _is_image(entry.name)
        ]
        classes = [entry.name for entry in entries if entry.is_dir() and _is_visible(entry.name)]
        members = {name: _images_below(folder / name) for name in classes}
    except OSError as error:
        raise ValueError(f"cannot read {folder}: {error.strerror or error}") from None
    names = tuple(name for name, files in members.items() if files)
    if names and loose:
        raise ValueError(
            f"{folder} holds images both in class folders ({names[0]}, ...) "
            f"and beside them ({loose[0].name}, ...)"
        )
    if not names and not loose:
        raise ValueError(f"{folder} holds no images ({', '.join(SUFFIXES)})")
    if loose:
        return ImageFiles(tuple(loose), np.full(len(loose), UNLABELLED), ())
    return ImageFiles(
        files=tuple(path for name in names for path in members[name]),
        labels=np.repeat(np.arange(len(names)), [len(members[name]) for name in names]),
        class_names=names,
        empty_classes=tuple(name for name, files in members.items() if not files),
    )


def _images_below(folder: Path) -> list[Path]:
    """The image files of a folder and its subfolders, sorted."""
    found = []
    for place, folders, files in os.walk(folder, onerror=_refuse):
        folders[:] = filter(_is_visible, folders)
        here = Path(place)
        found += [here / name for name in files if _is_image(name)]
    return sorted(found, key=str)


def _refuse(error: OSError) -> None:
    """Refuse an unreadable subfolder instead of treating it as empty."""
    raise error


def _is_visible(name: str) -> bool:
    """Whether a file or folder is visible; ``._x.jpg`` of some systems is not."""
    return not name.startswith((".", "__MACOSX"))


def _is_image(name: str) -> bool:
    """Whether a file looks like an image by its name."""
    return _is_visible(name) and name.lower().endswith(SUFFIXES)
