"""Batches of few domains, so that every anchor has candidates of its own domain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler

from bayescl.axes import Int, Tensor
from bayescl.checks import check_count

__all__ = ["DomainBatchSampler"]

_EPOCH = 2**32  # seeds of one run's epochs lie this far from those of the next seed


class DomainBatchSampler(Sampler[list[int]]):
    """Batches that hold items of a few domains each, for losses with ``domains=``.

    Each epoch, the items of every domain are shuffled and cut into pieces of
    ``batch_size / num_domains``; the pieces are shuffled and put together. So every item comes once
    an epoch, unless it is of a last batch that is not full, and most batches hold about
    ``num_domains`` domains. The order depends only on the seed and the epoch.

    Across processes, each takes every ``num_processes``-th batch, and all take equally many.

    Args:
        domains: the domain of each item of the data set.
        batch_size: items in a batch.
        num_domains: pieces that a batch is made of, at most ``batch_size``.
        seed: of the order, from 0.
        rank: number of this process.
        num_processes: how many share the epoch.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> sampler = DomainBatchSampler([0, 0, 0, 0, 1, 1, 1, 1], batch_size=4, num_domains=1)
        >>> [sorted(batch) for batch in sampler] in ([[0, 1, 2, 3], [4, 5, 6, 7]],
        ...                                          [[4, 5, 6, 7], [0, 1, 2, 3]])
        True

        With a data set, call :meth:`set_epoch` before each epoch, as with PyTorch's
        ``DistributedSampler``::

            loader = DataLoader(dataset, batch_sampler=sampler)
    """

    def __init__(
        self,
        domains: Sequence[int] | Int[Tensor, " items"],
        batch_size: int,
        num_domains: int = 4,
        *,
        seed: int = 0,
        rank: int = 0,
        num_processes: int = 1,
    ) -> None:
        self.domains = torch.as_tensor(domains).long().cpu()
        if self.domains.ndim != 1 or len(self.domains) == 0:
            raise ValueError(f"domains must be one per item, got {list(self.domains.shape)}")
        self.batch_size = check_count("batch_size", batch_size, 1)
        self.num_domains = check_count("num_domains", num_domains, 1)
        if num_domains > batch_size:
            raise ValueError(f"num_domains must be at most batch_size, got {num_domains}")
        self.seed = check_count("seed", seed, 0)
        self.num_processes = check_count("num_processes", num_processes, 1)
        self.rank = check_count("rank", rank, 0)
        if rank >= num_processes:
            raise ValueError(f"rank must be below num_processes, got {rank} of {num_processes}")
        self.epoch = 0
        if len(self) == 0:
            raise ValueError(
                f"batch_size must leave every process a batch, got {batch_size} for "
                f"{len(self.domains)} items on {num_processes} processes"
            )

    def __len__(self) -> int:
        """Number of this process's batches in an epoch."""
        return len(self.domains) // self.batch_size // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        """Return this process's batches of the epoch."""
        generator = torch.Generator().manual_seed(self.seed * _EPOCH + self.epoch)
        order = torch.randperm(len(self.domains), generator=generator)
        order = order[self.domains[order].argsort(stable=True)]  # shuffled within each domain
        _, counts = self.domains.unique(return_counts=True)
        size = max(1, self.batch_size // self.num_domains)
        pieces = [piece for rows in order.split(counts.tolist()) for piece in rows.split(size)]
        shuffled = torch.randperm(len(pieces), generator=generator).tolist()
        batches = torch.cat([pieces[place] for place in shuffled]).split(self.batch_size)
        own = batches[self.rank :: self.num_processes][: len(self)]
        return iter([batch.tolist() for batch in own])

    def set_epoch(self, epoch: int) -> None:
        """Draw the order of another epoch."""
        self.epoch = check_count("epoch", epoch, 0)
