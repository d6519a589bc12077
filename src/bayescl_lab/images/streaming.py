"""Images that stay in their files and are decoded on each access."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from bayescl.axes import Int, Tensor
from bayescl.checks import check_count
from bayescl_lab._cores import usable_cores
from bayescl_lab.images.decoding import ImageFormat, decode, decode_into, quiet

_TASK_BYTES, _TASK_IMAGES = 1 << 26, 512
"""Largest number of decoded bytes and of images in a worker's task: a batch, or a part of one."""

_START = "fork" if sys.platform == "linux" else None
"""How workers start. Spawned workers would each import torch first."""


def decoding_workers(processes: int = 1) -> int:
    """Default number of decoding workers: one less than the number of usable cores, at least 1.

    Args:
        processes: processes on this machine that share the cores. A process started by
            :mod:`multiprocessing` has siblings and uses one worker.
    """
    if multiprocessing.parent_process() is not None:
        return 1
    return max(1, usable_cores() // processes - 1)


@dataclass(frozen=True, eq=False)
class StreamedPixels:
    """Image files that behave like one uint8 tensor, without keeping pixels in memory.

    Indexing by a tensor of rows decodes these images, to the same pixels as
    :func:`~bayescl_lab.images.decoding.decode_into`.

    Attributes:
        folder: the folder that the names are relative to.
        names: names of the files, as the file system's bytes.
        format: format of decoded images.
        workers: processes that decode batches; 0 decodes in the calling process.
        device: device of decoded images.
    """

    folder: Path
    names: NDArray[np.bytes_]
    format: ImageFormat
    workers: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        check_count("workers", self.workers, 0)

    def __len__(self) -> int:
        """The number of images."""
        return len(self.names)

    @property
    def shape(self) -> torch.Size:
        """``[images, channels, height, width]``."""
        return torch.Size((len(self), *self.format))

    def __getitem__(
        self, rows: Int[Tensor, " rows"]
    ) -> UInt8[Tensor, "rows channels height width"]:
        """Decode the images of some rows, in threads of this process.

        Raises:
            ValueError: if one of them cannot be read.
        """
        pixels = np.empty((len(rows), *self.format), np.uint8)
        for path, reason in decode_into(pixels, self._files(rows.tolist()), self.format).items():
            raise ValueError(f"cannot read {path}: {reason}")
        return torch.from_numpy(pixels).to(self.device)

    def to(self, device: torch.device | str) -> StreamedPixels:
        """The same images, to be moved to another device after decoding."""
        return replace(self, device=torch.device(device))

    def decoded(self, rows: Sequence[int]) -> UInt8[Tensor, "rows channels height width"] | str:
        """Decode the images of some rows one by one, or complain about the first unreadable one."""
        pixels = np.empty((len(rows), *self.format), np.uint8)
        with quiet():
            for place, path in enumerate(self._files(rows)):
                image = decode(path, self.format)
                if isinstance(image, str):
                    return f"cannot read {path}: {image}"
                pixels[place] = image
        return torch.from_numpy(pixels)

    def _files(self, rows: Sequence[int]) -> list[Path]:
        """The files of some rows."""
        return [self.folder / os.fsdecode(name) for name in self.names[rows]]


class ImageStream:
    """Batches of streamed images in order, decoded ahead of time by worker processes.

    Each pass iterates over ``order`` anew; only one pass may run at a time. Workers start with the
    first pass and end with this object. Each decodes up to two batches ahead, as those of a
    ``DataLoader`` do; batches of more than 64 MiB or 512 images are divided among workers.

    Args:
        pixels: where the images are.
        order: the rows of each batch.
        size: largest number of rows in a batch.
    """

    def __init__(
        self, pixels: StreamedPixels, order: Iterable[Int[Tensor, " batch"]], size: int
    ) -> None:
        self._pixels = pixels
        at_once = max(1, min(_TASK_BYTES // pixels.shape[1:].numel(), _TASK_IMAGES))
        self._tasks = _Tasks(order, -(-size // at_once))
        self._loader: DataLoader[Tensor | str] | None = None
        self._decoded: Iterator[Tensor | str] = iter(())

    def __iter__(self) -> Iterator[UInt8[Tensor, "batch channels height width"]]:
        """Yield the images of each batch, on the device of the pixels.

        Raises:
            ValueError: if an image cannot be read, or a worker was killed.
        """
        try:
            if self._loader is None:
                self._loader = self._started()
            self._decoded = iter(self._loader)
            while parts := list(islice(self._decoded, self._tasks.parts)):
                moved = []
                for part in parts:
                    if isinstance(part, str):
                        raise ValueError(part)  # noqa: TRY004
                    moved.append(part.to(self._pixels.device, non_blocking=True))
                yield moved[0] if len(moved) == 1 else torch.cat(moved)
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
            sampler=self._tasks,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context=_START if workers else None,
            prefetch_factor=max(2, -(-self._tasks.parts // workers)) if workers else None,
            persistent_workers=workers > 0,
            pin_memory=self._pixels.device.type == "cuda",
            generator=torch.Generator(),  # otherwise it draws from the global one
        )


@dataclass(frozen=True)
class _Tasks:
    """Tasks of the workers: every batch in so many parts."""

    order: Iterable[Int[Tensor, " batch"]]
    parts: int

    def __iter__(self) -> Iterator[list[int]]:
        return (part.tolist() for rows in self.order for part in rows.tensor_split(self.parts))


@dataclass(frozen=True)
class _Decoder(Dataset["Tensor | str"]):
    """A worker's job. A complaint is returned, since a worker's exception carries a traceback."""

    pixels: StreamedPixels

    def __getitem__(self, rows: list[int]) -> Tensor | str:
        return self.pixels.decoded(rows)
