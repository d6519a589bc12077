"""A folder of images as image stores; decoded once, where decoding takes long."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl._axes import Tensor
from bayescl._files import write_atomically
from bayescl.vision.decoding import (
    Header,
    ImageFormat,
    Skipped,
    common_format,
    decode_into,
    read_headers,
)
from bayescl.vision.folder import find_parts
from bayescl.vision.pixel_files import cache_folder, map_pixels, write_pixels
from bayescl.vision.store import ImageStore

CACHE_FROM = 2000
"""So many images take long enough to decode that the pixels are worth keeping."""

_VERSION = 2  # of how files become pixels
_NAMED = 3  # files that a remark names


def load_folder(
    folder: Path, *, image_size: int | None = None
) -> tuple[ImageStore, ImageStore | None, tuple[str, ...]]:
    """Decode the images of a folder; see :func:`~bayescl.vision.folder.find_parts` for its form.

    Files that are not readable images are left out and counted. From 2,000 images on, the pixels
    are kept in the user's cache folder (``$BAYESCL_CACHE``), under a key made of the names,
    sizes and times of all files, so that the next run maps them into memory.

    Args:
        folder: where the images are.
        image_size: side in pixels that all images are brought to; its default is that of
            :func:`~bayescl.vision.decoding.common_format`.

    Returns:
        Training images, test images if the folder has such a part, and one line for whatever
        was left out.

    Raises:
        ValueError: if there are no readable images, or classes and parts do not fit.
    """
    train, test = find_parts(folder)
    parts = [train] if test is None else [train, test]
    files = [path for part in parts for path in part.files]
    decoded = _decoded(folder, files, image_size)

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
                pixels=decoded.pixels[begin:end],
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
    """Pixels of the readable files, the other files, and how many images changed their size."""

    pixels: Tensor
    skipped: list[Skipped]
    resized: int


def _decoded(folder: Path, files: list[Path], image_size: int | None) -> _Decoded:
    """Decode files, or map into memory what an earlier call kept."""
    if len(files) < CACHE_FROM:
        readable, skipped, wanted = _readable(folder, files, image_size)
        decoded = np.empty(_shape(readable, wanted), np.uint8)
        skipped += decode_into(decoded, list(readable), wanted)
        count = len(files) - len(skipped)
        return _Decoded(torch.from_numpy(decoded[:count]), skipped, _resized(readable, wanted))

    array = cache_folder() / f"{folder.resolve().name}-{_key(folder, files, image_size)}.npy"
    notes = array.with_suffix(".json")
    if not array.is_file():
        readable, skipped, wanted = _readable(folder, files, image_size)

        def fill(pixels: NDArray[np.uint8]) -> int:
            skipped.extend(decode_into(pixels, list(readable), wanted))
            # Before the pixels get their name, so that where there are pixels there are notes.
            lines = [(str(item.path.relative_to(folder)), item.reason) for item in skipped]
            write_atomically(notes, json.dumps([lines, _resized(readable, wanted)]))
            return len(files) - len(skipped)

        write_pixels(array, _shape(readable, wanted), fill)
    pixels = map_pixels(array)
    try:
        lines, resized = json.loads(notes.read_text(encoding="utf-8"))
        skipped = [Skipped(folder / name, reason) for name, reason in lines]
    except (OSError, ValueError, TypeError):
        skipped, resized = [], None
    if resized is None or len(pixels) != len(files) - len(skipped):
        raise ValueError(f"{array} is damaged: remove it, and {folder} is decoded again")
    return _Decoded(pixels, skipped, resized)


def _readable(
    folder: Path, files: list[Path], image_size: int | None
) -> tuple[dict[Path, Header], list[Skipped], ImageFormat]:
    """The files that begin like an image, the others, and the format to bring images to."""
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
    """What changes whenever a file is added, removed, renamed or written to."""
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
