"""Batches of pairs in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from bayescl._axes import Int, Tensor
from bayescl._checks import check_count
from bayescl._randomness import Purpose, derived_seed
from bayescl.recsys.interactions import Interactions


class PairBatch(NamedTuple):
    """Some observed pairs."""

    users: Int[Tensor, " batch"]
    items: Int[Tensor, " batch"]


class PairOrder:
    """A sampler of whole batches: the places of the pairs of each, in the current epoch's order.

    Every pair is seen once per epoch. The batches of an epoch differ by at most one pair, so that
    no small remainder is left over.

    Args:
        size: number of pairs.
        batch_size: the most pairs that a batch may hold.
        seed: the seed of the run.

    Raises:
        ValueError: if there are fewer than 2 pairs, or a batch could not hold 2.

    Example:
        >>> [len(rows) for rows in PairOrder(size=10, batch_size=4, seed=0)]
        [4, 3, 3]
    """

    def __init__(self, size: int, batch_size: int, seed: int) -> None:
        self.size = check_count("size", size, 2)
        self.batch_size = check_count("batch_size", batch_size, 2)
        self.seed = check_count("seed", seed, 0)
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Take the order of another epoch; Lightning calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-self.size // self.batch_size)

    def __iter__(self) -> Iterator[Int[Tensor, " batch"]]:
        """Yield the places of the pairs of each batch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        rows = torch.randperm(self.size, generator=torch.Generator().manual_seed(seed))
        yield from rows.tensor_split(len(self))


class PairBatches:
    """The batches of a data set's pairs; each is one indexing operation.

    Args:
        train: the pairs.
        batch_size: the most pairs that a batch may hold.
        seed: the seed of the run.
        device: where the pairs are kept and batches are cut out.

    Raises:
        ValueError: if there are fewer than 2 pairs, or a batch could not hold 2.
    """

    def __init__(
        self,
        train: Interactions,
        batch_size: int,
        seed: int,
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        self.sampler = PairOrder(train.num_interactions, batch_size, seed)
        users, items = train.pairs()
        # Both columns in one table, so that a batch is one gather.
        self.pairs = torch.stack([torch.from_numpy(users), torch.from_numpy(items)], dim=1)
        self.pairs = self.pairs.to(device)

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[PairBatch]:
        """Yield the batches of the sampler's current epoch."""
        for rows in self.sampler:
            users, items = self.pairs[rows.to(self.pairs.device)].unbind(dim=1)
            yield PairBatch(users, items)
