"""Pixels that stay in image files, and are decoded whenever they are asked for."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from bayescl._axes import Int, Tensor
from bayescl._checks import check_count
from bayescl._cores import usable_cores
from bayescl.vision.decoding import ImageFormat, Skipped, decode, decode_into

_TASK_BYTES, _TASK_IMAGES = 1 << 22, 128
"""Decoded bytes and images of one task of a worker, at most: batches are shared among workers."""

_START = "fork" if sys.platform == "linux" else None
"""How workers start. A process that was spawned would spawn them, and each import torch first."""


def decoding_workers(processes: int = 1) -> int:
    """How many workers decode by default: one per usable core but one, at least 1.

    Args:
        processes: processes on this machine that share the cores. A process that
            :mod:`multiprocessing` started has siblings and takes one worker.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    return max(1, usable_cores() // processes - 1)


@dataclass(frozen=True, eq=False)
class StreamedPixels:
    """Images in files that look like one uint8 tensor, of which nothing is kept in memory.

    Indexing by rows decodes these images, to the same pixels as
    :func:`~bayescl.vision.decoding.decode_into` makes.

    Attributes:
        folder: what the names of the files are relative to.
        names: of the files, as the file system's bytes.
        format: what the images are brought to.
        workers: processes that decode the batches of a pass; 0 for none but this one.
        device: where decoded images go.
    """

    folder: Path
    names: NDArray[np.bytes_]
    format: ImageFormat
    workers: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    dtype = torch.uint8
    ndim = 4

    def __post_init__(self) -> None:
        check_count("workers", self.workers, 0)

    @classmethod
    def of(
        cls, folder: Path, files: Sequence[Path], wanted: ImageFormat, workers: int = 0
    ) -> StreamedPixels:
        """Images of some files below a folder."""
        names = [os.fsencode(path.relative_to(folder)) for path in files]
        return cls(folder, np.array(names, dtype=np.bytes_), wanted, workers)

    def __len__(self) -> int:
        """The number of images."""
        return len(self.names)

    @property
    def shape(self) -> torch.Size:
        """``[images, channels, height, width]``."""
        wanted = self.format
        return torch.Size((len(self), wanted.channels, wanted.height, wanted.width))

    def __getitem__(
        self, rows: Int[Tensor, " rows"]
    ) -> UInt8[Tensor, "rows channels height width"]:
        """Decode the images of some rows, in threads of this process.

        Raises:
            ValueError: if one of them cannot be read.
        """
        pixels = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for skipped in decode_into(pixels, self._files(rows.tolist()), self.format):
            raise ValueError(_complaint(skipped))
        return torch.from_numpy(pixels).to(self.device)

    def between(self, begin: int, end: int) -> StreamedPixels:
        """The images of some rows that follow one another, to be decoded later."""
        return replace(self, names=self.names[begin:end])

    def to(self, device: torch.device | str) -> StreamedPixels:
        """The same images, which go to another device once they are decoded."""
        return replace(self, device=torch.device(device))

    def decoded(self, rows: Sequence[int]) -> UInt8[Tensor, "rows channels height width"] | Skipped:
        """Decode the images of some rows one by one; or say which of them cannot be read."""
        pixels = np.empty((len(rows), *self.shape[1:]), np.uint8)
        for place, path in enumerate(self._files(rows)):
            image = decode(path, self.format)
            if isinstance(image, str):
                return Skipped(path, image)
            pixels[place] = image
        return torch.from_numpy(pixels)

    def _files(self, rows: Sequence[int]) -> list[Path]:
        """The files of some rows."""
        return [self.folder / os.fsdecode(name) for name in self.names[rows]]


class ImageStream:
    """Batches of streamed images in order, decoded ahead of time by worker processes.

    Every pass over it is one over ``order`` as it then is; one at a time. Workers start with the
    first pass and end with this object. They share every batch, and decode at most one batch ahead
    or, of small batches, two tasks each.

    Args:
        pixels: where the images are.
        order: the rows of each batch.
        size: rows of a batch at most.
    """

    def __init__(
        self, pixels: StreamedPixels, order: Iterable[Int[Tensor, " batch"]], size: int
    ) -> None:
        self._pixels = pixels
        values = pixels.shape[1:].numel()
        self._tasks = _Tasks(order, max(1, min(_TASK_BYTES // values, _TASK_IMAGES)))
        self._ahead = -(-self._tasks.of(size) // max(1, pixels.workers))
        self._loader: DataLoader[Tensor | Skipped] | None = None
        self._parts: Iterator[Tensor | Skipped] = iter(())

    def __iter__(self) -> Iterator[UInt8[Tensor, "batch channels height width"]]:
        """Yield the images of each batch, on the device of the pixels.

        Raises:
            ValueError: if an image cannot be read, or a worker was killed.
        """
        try:
            yield from self._batches()
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise ValueError(
                f"a worker that decodes images is gone ({str(error).splitlines()[0]}): "
                "fewer workers or a smaller batch_size need less memory"
            ) from None

    def _batches(self) -> Iterator[Tensor]:
        """The images of each batch, put together of what workers decode."""
        pixels = self._pixels
        if self._loader is None:
            self._loader = self._started()
        self._parts = iter(self._loader)
        for rows in self._tasks.order:
            images = _empty((len(rows), *pixels.shape[1:]), pixels.device)
            for place in images.tensor_split(self._tasks.of(len(rows))):
                part = next(self._parts)
                if not isinstance(part, Tensor):
                    raise ValueError(_complaint(part))  # noqa: TRY004
                place.copy_(part, non_blocking=True)
            yield images

    def close(self) -> None:
        """End the workers, whoever still holds a pass; another pass starts new ones."""
        self._loader, self._parts = None, iter(())

    def _started(self) -> DataLoader[Tensor | Skipped]:
        """What decodes ahead; its workers start with its first pass."""
        workers = self._pixels.workers
        return DataLoader(
            _Decoder(self._pixels),
            sampler=self._tasks,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=_START if workers else None,
            prefetch_factor=max(2, self._ahead) if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self._pixels.device.type == "cuda",
            generator=torch.Generator(),  # or else it draws from the global one
        )


@dataclass(frozen=True)
class _Tasks:
    """What workers decode at once: batches in parts of at most so many images."""

    order: Iterable[Int[Tensor, " batch"]]
    at_once: int

    def of(self, count: int) -> int:
        """How many tasks a batch of so many images is."""
        return -(-count // self.at_once)

    def __iter__(self) -> Iterator[list[int]]:
        for rows in self.order:
            for some in rows.tensor_split(self.of(len(rows))):
                yield some.tolist()


@dataclass(frozen=True)
class _Decoder(Dataset["Tensor | Skipped"]):
    """What a worker does; a bad file is a result, as errors of workers come with a traceback."""

    pixels: StreamedPixels

    def __getitem__(self, rows: list[int]) -> Tensor | Skipped:
        return self.pixels.decoded(rows)


def _empty(shape: tuple[int, ...], device: torch.device) -> Tensor:
    """Room for images; on the CPU from NumPy, which asks for large pages: a third of the time."""
    if device.type == "cpu":
        return torch.from_numpy(np.empty(shape, np.uint8))
    return torch.empty(shape, dtype=torch.uint8, device=device)


def _complaint(skipped: Skipped) -> str:
    """What to say about an image that cannot be read."""
    return f"cannot read {skipped.path}: {skipped.reason}"
