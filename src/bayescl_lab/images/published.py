"""Published image data sets as stores: found, verified, and decoded once."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl_lab._downloads import DataSource, data_folder, verify_file
from bayescl_lab._files import open_atomically
from bayescl_lab.images.pixel_files import map_pixels, write_pixels
from bayescl_lab.images.store import ImageStore

PARTS = ("train", "test")


@dataclass(frozen=True)
class RawPart:
    """One part of a data set, before decoding.

    Attributes:
        shape: ``[images, channels, height, width]``.
        labels: the class of each image, counted from 0; -1 where unknown.
        fill: writes the pixels into an array of that shape.
    """

    shape: tuple[int, int, int, int]
    labels: NDArray[np.int64]
    fill: Callable[[NDArray[np.uint8]], None]


@dataclass(frozen=True)
class RawImages:
    """A data set as its publisher stores it.

    Attributes:
        train: the training images.
        test: the test images.
        class_names: one name per class.
    """

    train: RawPart
    test: RawPart
    class_names: tuple[str, ...]


class Members(Protocol):
    """The files of an archive, or of the folder that it was unpacked to."""

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        ...

    def open(self, name: str) -> IO[bytes]:
        """A file for reading."""
        ...


class FolderMembers:
    """Files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        return (self.folder / name).stat().st_size

    def open(self, name: str) -> IO[bytes]:
        """A file for reading."""
        return (self.folder / name).open("rb")


class TarMembers:
    """Files of one folder in a tar archive, read in place."""

    def __init__(self, archive: tarfile.TarFile, folder: str) -> None:
        self.archive = archive
        self.folder = folder

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        return self._member(name).size

    def open(self, name: str) -> IO[bytes]:
        """A file for reading."""
        content = self.archive.extractfile(self._member(name))
        if content is None:
            raise FileNotFoundError(f"{name} is not a file")
        return content

    def _member(self, name: str) -> tarfile.TarInfo:
        """The archive's entry of a file."""
        try:
            return self.archive.getmember(f"{self.folder}/{name}")
        except KeyError:
            raise FileNotFoundError(f"there is no {self.folder}/{name}") from None


def load_published(
    source: DataSource,
    raw_folder: str,
    open_raw: Callable[[Path], AbstractContextManager[RawImages]],
) -> tuple[ImageStore, ImageStore]:
    """Load a published data set from the data folder.

    The pixels are written beside the archive once, as arrays that later calls memory-map.

    Args:
        source: the data set, of one archive.
        raw_folder: the folder in its archive.
        open_raw: a context manager that reads an archive or its unpacked folder.

    Returns:
        Training and test images.

    Raises:
        ValueError: if the data set is missing or damaged, or the disk is full.
        OSError: if the labels cannot be written beside the pixels.
    """
    place = data_folder() / source.name
    index = place / "labels.npz"
    if not index.is_file():  # written last
        origin = find_raw(source, raw_folder)
        try:
            with open_raw(origin) as raw:
                for name, part in zip(PARTS, (raw.train, raw.test), strict=True):
                    write_pixels(place / f"{name}.npy", part.shape, part.fill)
                class_names = np.array(raw.class_names)
                train_labels, test_labels = raw.train.labels, raw.test.labels
        except (EOFError, KeyError, tarfile.TarError, zlib.error) as error:
            raise ValueError(f"{origin} is damaged: {error}") from None
        except OSError as error:
            place = error.filename or origin
            raise ValueError(f"cannot read {place}: {error.strerror or error}") from None
        with open_atomically(index) as file:
            np.savez(file, class_names=class_names, train=train_labels, test=test_labels)
    train, test = (_store(source, place, name) for name in PARTS)
    return train, test


def find_raw(source: DataSource, raw_folder: str) -> Path:
    """The verified archive of a data set, or the folder to which it was unpacked.

    Both are searched for in the data folder and in the data set's subfolder.

    Raises:
        ValueError: if neither exists, or the archive is not the published one.
    """
    (file,) = source.files
    places = (data_folder() / source.name, data_folder())
    for place in places:
        if (place / file.filename).is_file():
            verify_file(place / file.filename, file.checksum)
            return place / file.filename
    for place in places:
        if (place / raw_folder).is_dir():
            return place / raw_folder
    raise ValueError(
        f"{source.name} is not in {places[1]}: get it by 'bayescl data fetch {source.name}' "
        f"({file.size / 1e6:.0f} MB; {source.terms}), or put {file.filename} there"
    )


@contextmanager
def open_members(origin: Path, raw_folder: str) -> Iterator[Members]:
    """The files of a tar archive, or of its unpacked folder."""
    if origin.is_dir():
        yield FolderMembers(origin)
    else:
        with tarfile.open(origin, "r:*") as archive:
            yield TarMembers(archive, raw_folder)


def read_names(members: Members, name: str) -> tuple[str, ...]:
    """The non-empty lines of a text file."""
    with members.open(name) as content:
        lines = content.read().decode().splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def _store(source: DataSource, place: Path, name: str) -> ImageStore:
    """One part, memory-mapped."""
    index = place / "labels.npz"
    advice = f"{place} is damaged: remove labels.npz and the .npy files in it"
    try:
        with index.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            labels, class_names = arrays[name], arrays["class_names"]
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{advice} ({error})") from None
    pixels = map_pixels(place / f"{name}.npy")
    if len(pixels) != len(labels):
        raise ValueError(advice)
    return ImageStore(pixels, torch.from_numpy(labels), tuple(class_names.tolist()), source.name)
