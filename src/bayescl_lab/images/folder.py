"""Images in a folder: found, and decoded once or streamed."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.axes import Tensor
from bayescl_lab._arrays import numbered
from bayescl_lab._cores import usable_memory
from bayescl_lab.images.decoding import (
    SUFFIXES,
    common_format,
    decode_into,
    read_headers,
    value_range,
)
from bayescl_lab.images.pixel_files import Notes, cached, map_pixels, write_pixels
from bayescl_lab.images.store import ImageStore
from bayescl_lab.images.streaming import StreamedPixels, decoding_workers
from bayescl_lab.images.table import ImageTable

TRAIN_FOLDER = "train"
TEST_FOLDERS = ("test", "val", "validation", "valid")
"""Names of the test part; the first that exists is used."""

UNLABELED_FOLDER = "unlabeled"  # beside class folders: of images of unknown class
CACHE_FROM = 2000  # number of images from which decoded pixels are cached
LARGEST_SHARE = 0.5
"""Images are streamed by default if their pixels would take more than this share of the memory or
of the cache folder's free space."""

FilesByClass = dict[str, list[Path]]
"""The image files of each class folder, in order; those of unknown class are ``unlabeled``."""

_NAMED = 3  # files that a remark names
_SOURCE = re.compile(
    r"\d{4}-?\d\d-?\d\d|(batch|cam|camera|center|centre|day|device|hospital|lab|microscope|plate|"
    r"run|scanner|scope|sensor|session|site|source|station)[-_ ]?([a-z]|\d+)?",
    re.IGNORECASE,
)
"""Names of folders that may be sources."""


def load_folder(
    folder: Path,
    *,
    image_size: int | None = None,
    loader: str = "auto",
    workers: int | None = None,
    folders: str = "classes",
    table: ImageTable | None = None,
    values: tuple[int, int] | None = None,
) -> tuple[ImageStore, ImageStore | None, tuple[str, ...]]:
    """Load the images of a folder; see :func:`find_parts` for its form.

    Files that are not readable images are left out and counted. From 2,000 images on, decoded
    pixels are cached in the user's cache folder (``$BAYESCL_CACHE``), and later runs map them into
    memory. The cache key covers the names, sizes and times of all files.

    Streamed images are decoded on each access, to the same pixels, and nothing is cached. Files
    without a valid image header are left out; damage further on in a file raises an error when the
    image is read.

    Args:
        folder: where the images are.
        image_size: see :func:`~bayescl_lab.images.decoding.common_format`.
        loader: "memory" decodes all images once; "stream" decodes them on each access; "auto"
            streams if the pixels are not in the cache and would take more than half of the memory
            or of the cache folder's free space.
        workers: processes that decode streamed images; 0 decodes in the calling process; default:
            one less than the number of usable cores.
        folders: whether the folders of images are "classes" or "domains".
        table: labels and domains by file, which take the place of those by folder.
        values: the values of grey images of 16 bits that become black and white; default: the
            smallest and the largest of all images.

    Returns:
        Training images, test images if the folder has a test part, and one line for each kind of
        image left out or changed.
    """
    has_labels = table is not None and "label" in table.columns
    parts = find_parts(folder, flat=has_labels)
    files = [path for part in parts.values() for paths in part.values() for path in paths]
    names = [path.relative_to(folder).as_posix() for path in files]
    rows, remarks = ({}, []) if table is None else table.matched(names)
    pixels, notes = _pixels(folder, files, image_size, loader, workers, values)

    labels: list[str] = []  # of readable images, empty where unknown
    domains: list[str] = []
    kept: list[list[str]] = []
    for root, part in parts.items():
        kept.append([])
        for path in (path for paths in part.values() for path in paths):
            name, above = path.relative_to(folder).as_posix(), path.relative_to(root).parts[:-1]
            if name in notes["left_out"]:
                continue
            label, domain = (*above, "", "")[:2]
            if folders == "domains":
                label, domain = "", label
            row = rows.get(name, {}) if table is not None else {}
            if table is not None:
                label = row.get("label", "") if has_labels else label
                domain = row.get("domain", "") if "domain" in table.columns else domain
            labels.append("" if label == UNLABELED_FOLDER else label)
            domains.append(domain)
            kept[-1].append(name)
        if not kept[-1]:
            first = next(iter(notes["left_out"].items()))
            raise ValueError(
                f"{folder}: no file below {root} is readable: {first[0]} ({first[1]}), ..."
            )
    train = len(kept[0])
    codes, class_names = numbered(np.array(labels))
    if unknown := sorted(set(labels[train:]) - {*labels[:train], ""}):
        raise ValueError(f"{folder}: the training part has no images of {', '.join(unknown[:5])}")
    places, domain_names = numbered(np.array(domains))
    stores: list[ImageStore] = []
    for own in (slice(train), slice(train, None)):
        if not labels[own]:
            continue
        store = ImageStore(
            pixels[own] if isinstance(pixels, Tensor) else replace(pixels, names=pixels.names[own]),
            torch.from_numpy(codes[own]),
            class_names,
            name=folder.resolve().name,
            ids=np.array(kept[len(stores)], dtype=str),
            domains=torch.from_numpy(places[own]) if domain_names else None,
            domain_names=domain_names,
            values=tuple(notes["values"]) if notes["values"] else None,
        )
        stores.append(store)
    if folders == "classes" and not has_labels:
        remarks += _empty_folders(folder, parts.values())
        if len(class_names) > 1 and all(map(_SOURCE.fullmatch, class_names)):
            remarks.append(f"{folder}: {caution(class_names)}")
    remarks += _remarks(folder, notes, pixels.shape if image_size is None else None)
    return stores[0], stores[1] if len(stores) == 2 else None, tuple(remarks)


def caution(folders: Sequence[str]) -> str:
    """Remind the user that class folders may be sources."""
    return (
        f"folders are read as classes ({_listed(folders)}); if they are sources, "
        "pass --folders domains"
    )


def _empty_folders(folder: Path, parts: Iterable[FilesByClass]) -> Iterator[str]:
    """Name the class folders without images."""
    for part in parts:
        if empty := [name for name, paths in part.items() if not paths]:
            folders = f"class folder{'s' * (len(empty) > 1)}"
            yield f"{folder}: no images in the {folders} {_listed(empty)}"


def _remarks(folder: Path, notes: Notes, shape: Sequence[int] | None) -> Iterator[str]:
    """Return remarks for the user before training. ``shape`` is ``None`` if the user set it."""
    if left_out := notes["left_out"]:
        every = len(left_out) + notes["images"]
        named = _listed([f"{folder / path} ({reason})" for path, reason in left_out.items()])
        yield f"{folder}: {len(left_out)} of {every} files left out: {named}"
    if notes["resized"] and shape is not None:
        yield (
            f"{folder}: {notes['resized']} of {notes['images']} images scaled and cropped "
            f"to {shape[3]} x {shape[2]} pixels"
        )
    if pages := notes["pages"]:
        named = _listed([f"{path} ({count} pages)" for path, count in pages.items()])
        yield f"{folder}: the first page is read of {len(pages)} files with several: {named}"
    if notes["values"]:
        black, white = notes["values"]
        yield (
            f"{folder}: {notes['deep']} grey images of 16 bits: values from {black} to {white} "
            "become 0 to 255 (--value-range LOW,HIGH to change)"
        )
    if notes["cut"]:
        yield f"{folder}: {notes['cut']} images have colours of 16 bits; the upper 8 are read"


def _listed(names: Sequence[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def find_parts(folder: Path, *, flat: bool = False) -> dict[Path, FilesByClass]:
    """Find the image files of a folder and of its test part, if it has one, by the part's folder.

    The folder holds images in one subfolder per class or without subfolders, or a folder ``train``
    and optionally ``test`` (or ``val``) of that form. A folder ``unlabeled`` beside class folders
    holds images of unknown class. Folders below class folders are domains: batches, devices or
    sources, of the same name in every class. Hidden files and other files are skipped. If ``flat``,
    folders within a part mean nothing.
    """
    train_folder = folder / TRAIN_FOLDER
    if not train_folder.is_dir():
        return {folder: _files_by_class(folder, flat=flat)}
    train = _files_by_class(train_folder, flat=flat)
    test_folder = next((folder / name for name in TEST_FOLDERS if (folder / name).is_dir()), None)
    if test_folder is None:
        return {train_folder: train}
    test = _files_by_class(test_folder, flat=flat)
    known, tested = _class_names(train), _class_names(test)
    if bool(known) != bool(tested):
        raise ValueError(f"{folder}: one of train and {test_folder.name} has no class folders")
    unknown = [name for name in tested if name not in known]
    if unknown:
        raise ValueError(
            f"{test_folder} has classes that {train_folder} lacks: {', '.join(unknown[:5])}"
        )
    return {train_folder: train, test_folder: test}


def _files_by_class(folder: Path, *, flat: bool) -> FilesByClass:
    """The image files of one folder, with or without one subfolder per class."""

    def refuse(error: OSError) -> None:  # instead of treating an unreadable subfolder as empty
        raise ValueError(f"cannot read {folder}: {error.strerror or error}")

    loose: list[Path] = []
    files: FilesByClass = {}
    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        here = Path(place)
        # Class folders may be links; links within them may form circles, and are left out.
        below = (here / name for name in folders if _is_visible(name))
        folders[:] = [it.name for it in below if here == folder or not it.is_symlink()]
        images = [here / it for it in names if _is_visible(it) and it.lower().endswith(SUFFIXES)]
        if here == folder:
            loose = [path for path in images if path.is_file()]
            files = {name: [] for name in sorted(folders)}
        else:
            files[here.relative_to(folder).parts[0]] += images
    if flat:
        loose, files = [*loose, *(path for paths in files.values() for path in paths)], {}
    first = next((name for name, paths in files.items() if paths), None)
    if first is not None and loose:
        raise ValueError(
            f"{folder} holds images both in class folders ({first}, ...) "
            f"and beside them ({min(loose).name}, ...)"
        )
    if first is None and not loose:
        raise ValueError(f"{folder} holds no images ({', '.join(SUFFIXES)})")
    files = {UNLABELED_FOLDER: loose} if loose else files
    return {name: sorted(paths, key=str) for name, paths in files.items()}


def _is_visible(name: str) -> bool:
    """Whether a file or folder is visible; ``._x.jpg`` of some systems is not."""
    return not name.startswith((".", "__MACOSX"))


def _class_names(files: FilesByClass) -> tuple[str, ...]:
    """The classes that have images."""
    return tuple(name for name, paths in files.items() if paths and name != UNLABELED_FOLDER)


def _pixels(
    folder: Path,
    files: list[Path],
    image_size: int | None,
    loader: str,
    workers: int | None,
    values: tuple[int, int] | None,
) -> tuple[Tensor | StreamedPixels, Notes]:
    """The pixels of the readable files, decoded, mapped or streamed, and notes for remarks."""
    array = None
    if len(files) >= CACHE_FROM:
        chosen = [image_size or "own", *(values or ())]
        array = cached(folder, files, f"{'-'.join(map(str, chosen))}.npy")
        if loader != "stream" and array.is_file():
            return map_pixels(array)
    headers, unreadable = read_headers(files)
    if not headers:
        path, reason = next(iter(unreadable.items()))
        raise ValueError(
            f"{folder}: none of {len(files)} files can be read: {path} ({reason}), ..."
        )
    wanted = common_format(list(headers.values()), image_size)
    size = (wanted.width, wanted.height)
    every = list(headers.values())
    if deep := [path for path, header in headers.items() if header.is_deep]:
        wanted = replace(wanted, values=values or value_range(deep))

    def notes() -> Notes:
        left_out = {path.relative_to(folder).as_posix(): unreadable[path] for path in unreadable}
        return {
            "images": len(files) - len(unreadable),
            "left_out": left_out,
            "resized": sum((header.width, header.height) != size for header in every),
            "pages": {
                path.relative_to(folder).as_posix(): header.pages
                for path, header in headers.items()
                if header.pages > 1
            },
            "deep": len(deep),
            "values": wanted.values if deep else None,
            "cut": sum(header.is_cut for header in every),
        }

    def fill(pixels: NDArray[np.uint8]) -> Notes:
        unreadable.update(decode_into(pixels, list(headers), wanted))
        return notes()

    shape = (len(headers), *wanted)
    if loader == "stream" or (loader == "auto" and math.prod(shape) > LARGEST_SHARE * _room(array)):
        names = np.array([os.fsencode(path.relative_to(folder)) for path in headers])
        workers = decoding_workers() if workers is None else workers
        return StreamedPixels(folder, names, wanted, workers), notes()
    if array is not None:
        write_pixels(array, shape, fill)
        return map_pixels(array)
    pixels = np.empty(shape, np.uint8)
    described = fill(pixels)
    return torch.from_numpy(pixels[: described["images"]]), described


def _room(array: Path | None) -> float:
    """Bytes of memory and, for pixels to be cached, of disk space."""
    if array is None:
        return usable_memory()
    existing = next(place for place in array.parents if place.is_dir())
    return min(usable_memory(), shutil.disk_usage(existing).free)
