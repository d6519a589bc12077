"""Batches of a store in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from bayescl import DomainBatchSampler
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.items.store import Items, ItemStore, copied_to


class ItemBatch(NamedTuple):
    """Items with their labels, and other arguments of the loss by name."""

    items: Items
    labels: Int[Tensor, " batch"]
    known: Mapping[str, Tensor] = {}


@dataclass(eq=False)
class EpochOrder:
    """Sampler of the item indices of full batches, in the order of the current epoch.

    Items that do not fill a batch are skipped, different ones in each epoch. Several devices
    divide each batch, so the number of devices does not change the order.
    """

    size: int  # number of items
    batch_size: int  # items per batch of all devices, at most size
    seed: int
    rank: int = 0  # number of this device
    num_ranks: int = 1  # number of devices; it must divide batch_size
    epoch: int = 0

    def __post_init__(self) -> None:
        if self.size < self.batch_size:
            raise ValueError(
                f"batch_size must be at most the number of training items, "
                f"got {self.batch_size} for {self.size} items"
            )

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. Lightning calls this method at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.size // self.batch_size

    def __iter__(self) -> Iterator[Int[Tensor, " batch"]]:
        """Yield this device's rows of each batch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        rows = torch.randperm(self.size, generator=torch.Generator().manual_seed(seed))
        for batch in rows[: len(self) * self.batch_size].split(self.batch_size):
            yield batch.chunk(self.num_ranks)[self.rank]


@dataclass(eq=False)
class DomainOrder(EpochOrder):
    """Sampler of the item indices of full batches of few domains; see :class:`EpochOrder`."""

    domains: Int[Tensor, " items"] = field(kw_only=True)
    domains_per_batch: int = field(kw_only=True)

    def __iter__(self) -> Iterator[Int[Tensor, " batch"]]:
        """Yield this device's rows of each batch."""
        sampler = DomainBatchSampler(
            self.domains,
            self.batch_size,
            self.domains_per_batch,
            seed=self.seed,
            rank=0,
            num_processes=1,
        )
        sampler.set_epoch(self.epoch)
        for batch in sampler:
            yield torch.tensor(batch).chunk(self.num_ranks)[self.rank]


class StoreBatches:
    """Batches of a store, on the device of the store.

    The row numbers of an epoch are copied to the device once. ``known`` maps arguments of the
    loss to a value or vector per item.
    """

    def __init__(
        self,
        store: ItemStore,
        sampler: EpochOrder,
        known: Mapping[str, Tensor] | None = None,
    ) -> None:
        self.store = store
        self.sampler = sampler
        self.known = {name: part.to(store.device) for name, part in (known or {}).items()}

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[ItemBatch]:
        """Yield the batches of the sampler's current epoch."""
        for rows in copied_to(torch.stack(list(self.sampler)), self.store.device):
            known = {name: part[rows] for name, part in self.known.items()}
            yield ItemBatch(self.store.take(rows), self.store.labels[rows], known)
