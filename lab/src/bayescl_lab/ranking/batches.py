"""Batches of users with all their items, in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from bayescl_lab._fields import Count, checked
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.interactions import Interactions


class UserBatch(NamedTuple):
    """Users and all their pairs. ``anchor_of`` is the index of each pair's user in ``users``."""

    users: Int[Tensor, " users"]
    items: Int[Tensor, " pairs"]
    anchor_of: Int[Tensor, " pairs"]


class UserBatches:
    """Batches of users in the order of the current epoch.

    All pairs of a user are in one batch, so each user needs one row of scores. Every pair occurs
    once per epoch, and users without pairs are skipped. The sizes of batches differ by at most one
    user. Several processes divide the users of every batch.

    Args:
        train: Training interactions.
        batch_size: Largest number of users in a batch, over all processes. ``None``: the number
            of users / 32, clipped to [32, 256].
        seed: Seed of the run.
        device: Device of pairs and batches.
        rank: Rank of this process, below ``num_ranks``.
        num_ranks: Number of processes.

    Raises:
        ValueError: if a number is out of range, or a batch has fewer users than there are
            processes.

    Example:
        >>> train = Interactions.from_pairs(range(10), range(10), user_ids=12, item_ids=10)
        >>> [len(batch.users) for batch in UserBatches(train, 4, seed=0)]
        [4, 3, 3]
    """

    def __init__(
        self,
        train: Interactions,
        batch_size: int | None,
        seed: int,
        *,
        device: torch.device | str = "cpu",
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        self.starts = torch.from_numpy(train.matrix.indptr).long().to(device)
        self.items = torch.from_numpy(train.matrix.indices).long().to(device)
        self.users = self.starts.diff().nonzero()[:, 0]
        size = checked("number of users with items", len(self.users), Count)
        if batch_size is None:
            batch_size = min(max(size // 32, 32), 256)
        self.batches = -(-size // checked("batch_size", batch_size, Count))
        if size // self.batches < checked("num_ranks", num_ranks, Count):
            raise ValueError(
                "every batch must have a user for each device, got batches of "
                f"{size // self.batches} for {num_ranks} devices"
            )
        self.seed, self.rank, self.num_ranks = seed, rank, num_ranks
        self.epoch = 0
        self.sampler = self  # where Lightning looks for set_epoch

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch. Lightning calls this method at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self.batches

    def __iter__(self) -> Iterator[UserBatch]:
        """Yield this process's part of the batches of the current epoch."""
        seed = derived_seed(self.seed, Purpose.ORDER, self.epoch)
        order = torch.randperm(len(self.users), generator=torch.Generator().manual_seed(seed))
        for rows in order.tensor_split(len(self)):
            own = rows.tensor_split(self.num_ranks)[self.rank]
            yield self._batch_of(self.users[own.to(self.users.device)])

    def _batch_of(self, users: Int[Tensor, " users"]) -> UserBatch:
        """Return a batch of the given users, with all their items."""
        first = self.starts[users]
        counts = self.starts[users + 1] - first
        anchor_of = torch.arange(len(users), device=users.device).repeat_interleave(counts)
        # The n-th pair of the batch stands at n, less the pairs of earlier users, from the start.
        shift = first - (counts.cumsum(0) - counts)
        entries = torch.arange(len(anchor_of), device=users.device) + shift[anchor_of]
        return UserBatch(users, self.items[entries], anchor_of)
