"""Batches of pairs in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

from bayescl.axes import Int, Tensor
from bayescl.checks import check_count
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.interactions import Interactions

WHOLE = slice(None)
"""The rows of a batch if one process trains alone."""


class PairBatch(NamedTuple):
    """Observed pairs; ``own`` are those that this process trains, by default all."""

    users: Int[Tensor, " batch"]
    items: Int[Tensor, " batch"]
    own: slice = WHOLE


class PairOrder:
    """A sampler that yields the indices of whole batches of pairs, in the current epoch's order.

    Every pair is seen once per epoch. Batch sizes differ by at most one, so no small remainder is
    left over. There must be at least 2 pairs, and a ``batch_size`` of at least 2.

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
        """Switch to the order of another epoch; Lightning calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches per epoch."""
        return -(-self.size // self.batch_size)

    def __iter__(self) -> Iterator[Int[Tensor, " batch"]]:
        """Yield the indices of the pairs of each batch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        rows = torch.randperm(self.size, generator=torch.Generator().manual_seed(seed))
        yield from rows.tensor_split(len(self))


class PairBatches:
    """The batches of a data set's pairs; each is one indexing operation.

    Several processes get the same batches, and each trains its own part of every batch. The sizes
    of the parts differ by at most one.

    Args:
        train: the pairs.
        batch_size: largest number of pairs in a batch, over all processes.
        seed: the seed of the run.
        device: device of the pairs and batches.
        rank: number of this process, below ``num_ranks``.
        num_ranks: number of processes.

    Raises:
        ValueError: as :class:`PairOrder`, or if a batch has fewer pairs than there are processes.
    """

    def __init__(
        self,
        train: Interactions,
        batch_size: int,
        seed: int,
        *,
        device: torch.device | str = "cpu",
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self.sampler = PairOrder(train.num_interactions, batch_size, seed)
        fewest = train.num_interactions // len(self.sampler)
        if fewest < check_count("num_ranks", num_ranks, 1):
            raise ValueError(
                f"every batch must hold a pair for each device, got batches of {fewest} for "
                f"{num_ranks} devices"
            )
        self.rank, self.num_ranks = rank, num_ranks
        # Both columns are in one table, so that a batch is one gather.
        self.pairs = torch.stack([*map(torch.from_numpy, train.pairs())], dim=1).to(device)

    def __len__(self) -> int:
        """Batches per epoch."""
        return len(self.sampler)

    def __iter__(self) -> Iterator[PairBatch]:
        """Yield the batches of the sampler's current epoch."""
        for rows in self.sampler:
            users, items = self.pairs[rows.to(self.pairs.device)].unbind(dim=1)
            ends = (len(rows) * number // self.num_ranks for number in (self.rank, self.rank + 1))
            own = WHOLE if self.num_ranks == 1 else slice(*ends)
            yield PairBatch(users, items, own)
