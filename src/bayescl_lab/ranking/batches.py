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


class PairBatches:
    """The batches of a data set's pairs, in the current epoch's order.

    Every pair is seen once per epoch. Batch sizes differ by at most one, so no small remainder is
    left over. Several processes get the same batches, and each trains its own part of every batch;
    the sizes of the parts differ by at most one.

    Args:
        train: the pairs, at least 2.
        batch_size: largest number of pairs in a batch, over all processes; at least 2.
        seed: the seed of the run.
        device: device of the pairs and batches.
        rank: number of this process, below ``num_ranks``.
        num_ranks: number of processes.

    Raises:
        ValueError: if a number is out of range, or a batch has fewer pairs than there are
            processes.

    Example:
        >>> train = Interactions.from_pairs(range(10), range(10), user_ids=10, item_ids=10)
        >>> [len(batch.users) for batch in PairBatches(train, 4, seed=0)]
        [4, 3, 3]
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
        size = check_count("number of pairs", train.num_interactions, 2)
        self.batches = -(-size // check_count("batch_size", batch_size, 2))
        if size // self.batches < check_count("num_ranks", num_ranks, 1):
            raise ValueError(
                "every batch must hold a pair for each device, got batches of "
                f"{size // self.batches} for {num_ranks} devices"
            )
        self.seed, self.rank, self.num_ranks = seed, rank, num_ranks
        self.epoch = 0
        self.sampler = self  # where Lightning looks for what sets the epoch
        # Both columns are in one table, so that a batch is one gather.
        self.pairs = torch.stack([*map(torch.from_numpy, train.pairs())], dim=1).to(device)

    def set_epoch(self, epoch: int) -> None:
        """Switch to the order of another epoch; Lightning calls this at the start of each."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Batches per epoch."""
        return self.batches

    def __iter__(self) -> Iterator[PairBatch]:
        """Yield the batches of the current epoch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        order = torch.randperm(len(self.pairs), generator=torch.Generator().manual_seed(seed))
        for rows in order.tensor_split(len(self)):
            users, items = self.pairs[rows.to(self.pairs.device)].unbind(dim=1)
            ends = (len(rows) * number // self.num_ranks for number in (self.rank, self.rank + 1))
            own = WHOLE if self.num_ranks == 1 else slice(*ends)
            yield PairBatch(users, items, own)
