"""Files of decoded images, written atomically and memory-mapped."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray

from bayescl.axes import Tensor
from bayescl_lab._files import open_atomically, write_atomically

CACHE_VARIABLE = "BAYESCL_CACHE"
"""Environment variable with the folder of decoded images."""

Pixels = UInt8[Tensor, "images channels height width"]
"""Images with values from 0 to 255."""

Notes = dict[str, Any]
"""Metadata of the pixels, as JSON values."""

_VERSION = 5  # of the decoding


def cache_folder() -> Path:
    """Return ``$BAYESCL_CACHE``, or ``bayescl`` in the user's cache folder."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayescl"


def cached(folder: Path, files: Iterable[Path], what: str) -> Path:
    """Return the path of the cache for the files of a folder.

    The path changes if a file is added, removed, renamed or modified.
    """
    digest = hashlib.sha256(f"{_VERSION} {folder.resolve()}".encode())
    for path in files:
        status = path.stat()
        name = str(path)[len(str(folder)) :]
        digest.update(f"\n{name} {status.st_size} {status.st_mtime_ns}".encode())
    return cache_folder() / f"{folder.resolve().name}-{digest.hexdigest()[:16]}-{what}"


def write_pixels(
    path: Path, shape: tuple[int, int, int, int], fill: Callable[[NDArray[np.uint8]], Notes]
) -> None:
    """Write a ``.npy`` file of pixels and a ``.json`` file of notes atomically.

    ``fill`` writes the pixels and returns the notes.
    """
    size = math.prod(shape)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < size:
            raise ValueError(
                f"the decoded pixels need {size} bytes, {path.parent} has {free} free: "
                f"pass a smaller --image-size, or name another folder with {CACHE_VARIABLE}"
            )
        with open_atomically(path) as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, header)
            begin = file.tell()
            if hasattr(os, "posix_fallocate"):
                # Running out of space later, in mapped memory, would kill the process.
                os.posix_fallocate(file.fileno(), 0, begin + size)
            pixels = np.memmap(file, np.uint8, "r+", begin, shape)
            notes = fill(pixels)
            pixels.flush()
            # Before the pixels are moved into place, so that pixels always have notes.
            write_atomically(path.with_suffix(".json"), json.dumps(notes))
    except OSError as error:
        message = f"cannot write {path}: {error.strerror}" if error.strerror else str(error)
        raise ValueError(message) from None


def map_pixels(path: Path) -> tuple[Pixels, Notes]:
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
