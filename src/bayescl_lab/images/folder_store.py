"""Load a folder of images, decoded once or streamed."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.axes import Tensor
from bayescl.checks import check_choice
from bayescl_lab._cores import usable_memory
from bayescl_lab._files import write_atomically
from bayescl_lab.images.decoding import (
    Header,
    ImageFormat,
    Skipped,
    common_format,
    decode_into,
    read_headers,
)
from bayescl_lab.images.folder import find_parts
from bayescl_lab.images.pixel_files import cache_folder, map_pixels, write_pixels
from bayescl_lab.images.store import ImageStore
from bayescl_lab.images.streaming import StreamedPixels, decoding_workers

LOADERS = ("auto", "memory", "stream")

CACHE_FROM = 2000
"""Number of images from which decoded pixels are cached."""

LARGEST_SHARE = 0.5
"""Images are streamed by default if their pixels would take more than this share of the memory or
of the cache folder's free space."""

_VERSION = 2  # of how files become pixels
_NAMED = 3  # files that a remark names


def load_folder(
    folder: Path,
    *,
    image_size: int | None = None,
    loader: str = "auto",
    workers: int | None = None,
) -> tuple[ImageStore, ImageStore | None, tuple[str, ...]]:
    """Load the images of a folder; see :func:`~bayescl_lab.images.folder.find_parts` for its form.

    Files that are not readable images are left out and counted. From 2,000 images on, decoded
    pixels are cached in the user's cache folder (``$BAYESCL_CACHE``), and later runs map them into
    memory. The cache key covers the names, sizes and times of all files.

    Streamed images are decoded on each access, to the same pixels, and nothing is cached. Files
    without a valid image header are left out; damage further on in a file raises an error when the
    image is read.

    Args:
        folder: where the images are.
        image_size: side in pixels to which all images are resized; default: see
            :func:`~bayescl_lab.images.decoding.common_format`.
        loader: "memory" decodes all images once; "stream" decodes them on each access; "auto"
            streams if the pixels are not in the cache and would take more than half of the memory
            or of the cache folder's free space.
        workers: processes that decode streamed images; 0 decodes in the calling process; default:
            one less than the number of usable cores.

    Returns:
        Training images, test images if the folder has a test part, and one line for each kind of
        image left out or changed.

    Raises:
        ValueError: if there are no readable images, or the parts' classes do not match.
    """
    check_choice("loader", loader, LOADERS)
    train, test = find_parts(folder)
    parts = [train] if test is None else [train, test]
    files = [path for part in parts for path in part.files]
    workers = decoding_workers() if workers is None else workers
    decoded = _decoded(folder, files, image_size, loader, workers)

    remarks = [
        f"{folder}: no images in the class folder{'s' * (len(part.empty_classes) > 1)} "
        f"{_listed(part.empty_classes)}"
        for part in parts
        if part.empty_classes
    ]
    if decoded.skipped:
        named = _listed([f"{item.path} ({item.reason})" for item in decoded.skipped])
        remarks.append(f"{folder}: {len(decoded.skipped)} of {len(files)} files left out: {named}")
    if decoded.resized and image_size is None:
        height, width = decoded.pixels.shape[2:]
        remarks.append(
            f"{folder}: {decoded.resized} of {len(decoded.pixels)} images scaled and cropped "
            f"to {width} x {height} pixels"
        )
    unreadable = {item.path for item in decoded.skipped}
    stores, begin = [], 0
    for part in parts:
        good = np.array([path not in unreadable for path in part.files])
        if not good.any():
            raise ValueError(f"{folder}: no file below {part.files[0].parent.parent} is readable")
        end = begin + int(good.sum())
        stores.append(
            ImageStore(
                pixels=decoded.between(begin, end),
                labels=torch.from_numpy(part.labels[good].astype(np.int64)),
                class_names=part.class_names,
                name=folder.resolve().name,
                ids=np.array(
                    [
                        path.relative_to(folder).as_posix()
                        for path, is_good in zip(part.files, good, strict=True)
                        if is_good
                    ]
                ),
            )
        )
        begin = end
    return stores[0], stores[1] if len(stores) == 2 else None, tuple(remarks)


class _Decoded(NamedTuple):
    """Pixels of the readable files, the other files, and how many images are resized."""

    pixels: Tensor | StreamedPixels
    skipped: list[Skipped]
    resized: int

    def between(self, begin: int, end: int) -> Tensor | StreamedPixels:
        """The pixels of consecutive images."""
        if isinstance(self.pixels, StreamedPixels):
            return self.pixels.between(begin, end)
        return self.pixels[begin:end]


def _decoded(
    folder: Path, files: list[Path], image_size: int | None, loader: str, workers: int
) -> _Decoded:
    """Decode files, map cached pixels into memory, or set up streaming."""
    array = None
    if len(files) >= CACHE_FROM:
        array = cache_folder() / f"{folder.resolve().name}-{_key(folder, files, image_size)}.npy"
        if loader != "stream" and array.is_file():
            return _mapped(folder, files, array)
    readable, skipped, wanted = _readable(folder, files, image_size)
    if loader == "stream" or (loader == "auto" and _is_too_large(readable, wanted, array)):
        streamed = StreamedPixels.of(folder, list(readable), wanted, workers)
        return _Decoded(streamed, skipped, _resized(readable, wanted))
    if array is None:
        decoded = np.empty(_shape(readable, wanted), np.uint8)
        skipped += decode_into(decoded, list(readable), wanted)
        count = len(files) - len(skipped)
        return _Decoded(torch.from_numpy(decoded[:count]), skipped, _resized(readable, wanted))
    notes = _notes(array)

    def fill(pixels: NDArray[np.uint8]) -> int:
        skipped.extend(decode_into(pixels, list(readable), wanted))
        # Written before the pixels are moved into place, so pixels always have notes.
        lines = [(str(item.path.relative_to(folder)), item.reason) for item in skipped]
        write_atomically(notes, json.dumps([lines, _resized(readable, wanted)]))
        return len(files) - len(skipped)

    write_pixels(array, _shape(readable, wanted), fill)
    return _mapped(folder, files, array)


def _mapped(folder: Path, files: list[Path], array: Path) -> _Decoded:
    """The pixels that an earlier call cached."""
    pixels = map_pixels(array)
    try:
        lines, resized = json.loads(_notes(array).read_text(encoding="utf-8"))
        skipped = [Skipped(folder / name, reason) for name, reason in lines]
    except (OSError, ValueError, TypeError):
        skipped, resized = [], None
    if resized is None or len(pixels) != len(files) - len(skipped):
        raise ValueError(f"{array} is damaged: remove it to decode {folder} again")
    return _Decoded(pixels, skipped, resized)


def _notes(array: Path) -> Path:
    """The file beside cached pixels that lists the files left out."""
    return array.with_suffix(".json")


def _is_too_large(readable: dict[Path, Header], wanted: ImageFormat, array: Path | None) -> bool:
    """Whether the pixels exceed the default share of memory or disk space."""
    room = usable_memory()
    if array is not None:
        existing = next(place for place in array.parents if place.is_dir())
        room = min(room, shutil.disk_usage(existing).free)
    return math.prod(_shape(readable, wanted)) > LARGEST_SHARE * room


def _readable(
    folder: Path, files: list[Path], image_size: int | None
) -> tuple[dict[Path, Header], list[Skipped], ImageFormat]:
    """The files with a valid image header, the others, and the format of decoded images."""
    headers, skipped = read_headers(files)
    readable = {path: header for path, header in zip(files, headers, strict=True) if header}
    if not readable:
        first = skipped[0]
        raise ValueError(
            f"{folder}: none of {len(files)} files can be read: {first.path} ({first.reason}), ..."
        )
    return readable, skipped, common_format(list(readable.values()), image_size)


def _resized(readable: dict[Path, Header], wanted: ImageFormat) -> int:
    """How many images have another size than the wanted one."""
    size = (wanted.width, wanted.height)
    return sum((header.width, header.height) != size for header in readable.values())


def _shape(readable: dict[Path, Header], wanted: ImageFormat) -> tuple[int, int, int, int]:
    """Shape of the array of all readable images."""
    return len(readable), wanted.channels, wanted.height, wanted.width


def _key(folder: Path, files: list[Path], image_size: int | None) -> str:
    """A key that changes whenever a file is added, removed, renamed or modified."""
    digest = hashlib.sha256(f"{_VERSION} {image_size} {folder.resolve()}".encode())
    begin = len(str(folder))
    for path in files:
        status = path.stat()
        line = f"\n{str(path)[begin:]} {status.st_size} {status.st_mtime_ns}"
        digest.update(line.encode())
    return digest.hexdigest()[:16]


def _listed(names: Sequence[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
