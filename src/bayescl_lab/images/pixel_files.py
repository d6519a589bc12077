"""Pixels on disk: arrays that are complete or absent, memory-mapped rather than read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray

from bayescl.axes import Tensor
from bayescl_lab._files import open_atomically, staged_file

CACHE_VARIABLE = "BAYESCL_CACHE"
"""The environment variable that names the folder of decoded images."""


def cache_folder() -> Path:
    """Folder of decoded images: ``$BAYESCL_CACHE``, or ``bayescl`` in the user's cache folder."""
    if os.environ.get(CACHE_VARIABLE):
        return Path(os.environ[CACHE_VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bayescl"


def write_pixels(
    path: Path,
    shape: tuple[int, int, int, int],
    fill: Callable[[NDArray[np.uint8]], int | None],
) -> None:
    """Write a ``.npy`` file of pixels, completely or not at all.

    Args:
        path: the file to make.
        shape: ``[images, channels, height, width]``.
        fill: writes the pixels; returns how many images there are, if fewer than expected.

    Raises:
        ValueError: if the disk is full or not writable.
    """
    size = int(np.prod(shape, dtype=np.int64))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(path.parent).free
        if free < size:
            raise ValueError(
                f"the pixels need {size} bytes, {path.parent} has {free} free; "
                "a smaller image_size needs less, and loader stream none"
            )
        with staged_file(path) as staged:
            pixels = np.lib.format.open_memmap(staged, mode="w+", dtype=np.uint8, shape=shape)
            _reserve(staged)
            count = fill(pixels)
            pixels.flush()
            if count is not None and count < shape[0]:
                with open_atomically(staged) as rest:
                    np.save(rest, pixels[:count])
            del pixels
    except OSError as error:
        said = f"cannot write {path}: {error.strerror}" if error.strerror else str(error)
        raise ValueError(said) from None


def _reserve(path: Path) -> None:
    """Reserve disk space for a file now; running out later, in mapped memory, kills the process."""
    if hasattr(os, "posix_fallocate"):
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def map_pixels(path: Path) -> UInt8[Tensor, "images channels height width"]:
    """The memory-mapped pixels of a ``.npy`` file; writing to them does not change the file.

    Raises:
        ValueError: if the file cannot be read or holds something else.
    """
    try:
        pixels = np.load(path, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if pixels.dtype != np.uint8 or pixels.ndim != 4:
        raise ValueError(f"{path} is damaged: it holds no pixels")
    return torch.from_numpy(pixels)
