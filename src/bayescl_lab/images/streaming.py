"""Images that stay in their files and are decoded on each access."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, get_worker_info

from bayescl.axes import Int, Tensor
from bayescl_lab._cores import usable_cores
from bayescl_lab.images.decoding import ImageFormat, decode_into
from bayescl_lab.images.pixel_files import Pixels

_START = "fork" if sys.platform == "linux" else None
"""How workers start. Spawned workers would each import torch first."""


def decoding_workers(processes: int = 1) -> int:
    """Default number of decoding workers: one less than the number of usable cores, at least 1.

    Several ``processes`` on this machine may share the cores. A process started by
    :mod:`multiprocessing` has siblings and uses one worker.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    return max(1, usable_cores() // processes - 1)


@dataclass(frozen=True, eq=False)
class StreamedPixels:
    """Image files that behave like one uint8 tensor, without keeping pixels in memory."""

    folder: Path
    names: NDArray[np.bytes_]  # of the files, relative to the folder, as the file system's bytes
    format: ImageFormat
    workers: int = 0  # processes that decode batches; 0 decodes in the calling process

    def __len__(self) -> int:
        """The number of images."""
        return len(self.names)

    @property
    def shape(self) -> torch.Size:
        """``[images, channels, height, width]``."""
        return torch.Size((len(self), *self.format))

    def __getitem__(self, rows: Sequence[int] | Tensor) -> Pixels:
        """Decode the images of some rows, in threads unless this is a worker."""
        files = [self.folder / os.fsdecode(name) for name in self.names[np.asarray(rows)]]
        pixels = np.empty((len(files), *self.format), np.uint8)
        threads = None if get_worker_info() is None else 1
        for path, reason in decode_into(pixels, files, self.format, threads).items():
            raise ValueError(f"cannot read {path}: {reason}")
        return torch.from_numpy(pixels)


@dataclass(frozen=True)
class MappedOrder:
    """A function of each batch of rows, on demand, as often as the order is iterated over."""

    function: Callable[[Tensor], Any]
    order: Iterable[Int[Tensor, " batch"]]

    def __iter__(self) -> Iterator[Any]:
        return map(self.function, self.order)


class ImageStream:
    """Batches of streamed images in order, decoded ahead of time by worker processes.

    Each pass iterates over ``order`` anew; only one pass may run at a time. Workers start with the
    first pass and end with this object. Each decodes up to two batches ahead, as those of a
    ``DataLoader`` do.
    """

    def __init__(
        self, pixels: StreamedPixels, order: Iterable[list[int]], device: torch.device
    ) -> None:
        self._pixels, self._order, self._device = pixels, order, device
        self._loader: DataLoader[Tensor | str] | None = None
        self._decoded: Iterator[Tensor | str] = iter(())

    def __iter__(self) -> Iterator[Pixels]:
        """Yield the images of each batch; a ``ValueError`` says which cannot be read."""
        try:
            if self._loader is None:
                self._loader = self._started()
            self._decoded = iter(self._loader)
            while (images := next(self._decoded, None)) is not None:
                if isinstance(images, str):
                    raise ValueError(images)  # noqa: TRY004
                yield images.to(self._device, non_blocking=True)
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise ValueError(
                f"a worker that decodes images died ({str(error).splitlines()[0]}): "
                "fewer workers or a smaller batch_size need less memory"
            ) from None

    def close(self) -> None:
        """Stop the workers, even if a pass is under way; the next pass starts new ones."""
        self._loader, self._decoded = None, iter(())

    def _started(self) -> DataLoader[Tensor | str]:
        """The loader that decodes ahead; its workers start with its first pass."""
        workers = self._pixels.workers
        return DataLoader(
            _Decoder(self._pixels),
            sampler=self._order,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=_START if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self._device.type == "cuda",
            generator=torch.Generator(),  # otherwise it draws from the global one
        )


@dataclass(frozen=True)
class _Decoder(Dataset["Tensor | str"]):
    """A worker's job. A complaint is returned, since a worker's exception carries a traceback."""

    pixels: StreamedPixels

    def __getitem__(self, rows: list[int]) -> Tensor | str:
        try:
            return self.pixels[rows]
        except ValueError as error:
            return str(error)
