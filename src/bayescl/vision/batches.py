"""Batches of a store in an order that depends on seed and epoch alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import UInt8

from bayescl._axes import Int, Tensor
from bayescl._checks import check_count
from bayescl._randomness import Purpose, derived_seed
from bayescl.vision.store import ImageStore


class ImageBatch(NamedTuple):
    """Some images and their labels."""

    images: UInt8[Tensor, "batch channels height width"]
    labels: Int[Tensor, batch]


class EpochOrder:
    """A sampler of whole batches: the rows of each, in the order of the current epoch.

    The remainder that fills no batch is left out; another remainder in each epoch.

    Args:
        size: number of images.
        batch_size: images per batch, at least 2 and at most ``size``.
        seed: the seed of the run.

    Raises:
        ValueError: if there are fewer images than a batch holds.
    """

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        check_count("batch_size", batch_size, 2)
        if size < batch_size:
            raise ValueError(
                f"batch_size must be at most the number of training images, "
                f"got {batch_size} for {size} images"
            )
        self.size = size
        self.batch_size = batch_size
        self.seed = seed
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the order of another epoch; Lightning calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches per epoch."""
        return self.size // self.batch_size

    def __iter__(self) -> Iterator[Int[Tensor, batch]]:
        """Yield the rows of each batch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        rows = torch.randperm(self.size, generator=torch.Generator().manual_seed(seed))
        yield from rows[: len(self) * self.batch_size].split(self.batch_size)


class StoreBatches:
    """The batches of a store, cut out on the store's own device.

    Args:
        store: the images.
        sampler: the rows of each batch.
    """

    def __init__(self, store: ImageStore, sampler: EpochOrder) -> None:
        self.store = store
        self.sampler = sampler

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[ImageBatch]:
        """Yield the batches of the sampler's current epoch."""
        for rows in self.sampler:
            rows = rows.to(self.store.device)
            yield ImageBatch(self.store.images[rows], self.store.labels[rows])
