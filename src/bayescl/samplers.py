"""Samplers for losses with ``domains=``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler

from bayescl import distributed
from bayescl._checks import check_count, check_keys
from bayescl._types import Int, Tensor

__all__ = ["DomainBatchSampler"]

_SMALL = 9
"""Size of a domain below which a warning is given. Two views of 8 items give an anchor 14
candidates, fewer than the 16 below which losses warn; see :mod:`bayescl.losses.candidates`."""

_EPOCH = 2**32  # distance between the generator seeds of consecutive values of ``seed``


class DomainBatchSampler(Sampler[list[int]]):
    """Sample batches with items of a few domains each, for losses with ``domains=``.

    Each epoch, the items of every domain are shuffled and split into pieces of
    ``batch_size / num_domains`` items. Batches are made of shuffled pieces. Every item occurs once
    per epoch, and most batches hold about ``num_domains`` domains. The order depends only on the
    seed and the epoch.

    With several processes, each process takes every ``num_processes``-th batch, and all processes
    have the same number of batches.

    Args:
        domains: Domain of each item of the data set, an integer.
        batch_size: Number of items in a batch.
        num_domains: Number of pieces in a batch, at most ``batch_size``. Default: 4.
        seed: Seed of the order, at least 0. Default: 0.
        drop_last: Whether to drop a last batch that is not full. Default: True.
        rank: Rank of this process. Default: its rank in the default process group, or 0 without a
            group.
        num_processes: Number of processes that share the epoch. Default: the size of the default
            process group, or 1.

    Raises:
        ValueError: if ``domains`` are not integers, or a number is out of range.

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
        drop_last: bool = True,
        rank: int | None = None,
        num_processes: int | None = None,
    ) -> None:
        self.domains = _integers(domains)
        self.batch_size = check_count("batch_size", batch_size, 1)
        self.num_domains = check_count("num_domains", num_domains, 1)
        if num_domains > batch_size:
            raise ValueError(f"num_domains must be at most batch_size, got {num_domains}")
        self.seed = check_count("seed", seed, 0)
        if (rank is None) != (num_processes is None):
            raise ValueError("rank and num_processes must be given together")
        if rank is None or num_processes is None:
            has_group = distributed.is_initialized()
            rank = distributed.rank() if has_group else 0
            num_processes = distributed.world_size() if has_group else 1
        self.num_processes = check_count("num_processes", num_processes, 1)
        self.rank = check_count("rank", rank, 0)
        if rank >= num_processes:
            raise ValueError(f"rank must be below num_processes, got {rank} of {num_processes}")
        self.drop_last = drop_last
        self.epoch = 0
        self.drawn = 0
        if len(self) == 0:
            raise ValueError(
                f"batch_size must be small enough for one batch per process, got {batch_size} for "
                f"{len(self.domains)} items on {num_processes} processes"
            )
        self._warn_of_small_domains()

    def _warn_of_small_domains(self) -> None:
        """Warn if most items belong to small domains."""
        _, places, counts = self.domains.unique(return_inverse=True, return_counts=True)
        median = int(counts[places].median())
        if median < min(self.batch_size // self.num_domains, _SMALL):
            warnings.warn(
                f"half of the items are in domains of at most {median} items, so with domains= "
                "they have few candidates: merge similar domains, or pass -1 for items of small "
                "domains to the loss, which agrees with every domain",
                stacklevel=3,
            )

    def __len__(self) -> int:
        """Return the number of this process's batches in an epoch."""
        items, size = len(self.domains), self.batch_size
        return (items // size if self.drop_last else -(-items // size)) // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this process's batches of the epoch, without batches that were already drawn."""
        generator = torch.Generator().manual_seed(self.seed * _EPOCH + self.epoch)
        order = torch.randperm(len(self.domains), generator=generator)
        order = order[self.domains[order].argsort(stable=True)]  # shuffled within each domain
        _, counts = self.domains.unique(return_counts=True)
        size = max(1, self.batch_size // self.num_domains)
        pieces = [piece for rows in order.split(counts.tolist()) for piece in rows.split(size)]
        shuffled = torch.randperm(len(pieces), generator=generator).tolist()
        batches = torch.cat([pieces[place] for place in shuffled]).split(self.batch_size)
        for batch in batches[self.rank :: self.num_processes][self.drawn : len(self)]:
            self.drawn += 1
            yield batch.tolist()
        self.drawn = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, and start it from its first batch."""
        self.epoch, self.drawn = check_count("epoch", epoch, 0), 0

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of batches drawn, to resume in the middle of an epoch."""
        return {"epoch": self.epoch, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a :meth:`state_dict`. Batches that workers prefetched are skipped."""
        self.set_epoch(state["epoch"])
        self.drawn = check_count("drawn", state["drawn"], 0)


def _integers(domains: Sequence[int] | Int[Tensor, " items"]) -> Int[Tensor, " items"]:
    """Return domains as a tensor on the CPU; raise if they are not one integer per item."""
    try:
        found = torch.as_tensor(domains)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"domains must hold integers, got {str(domains)[:60]}: number them, for example by "
            "numpy.unique(domains, return_inverse=True)[1]"
        ) from None
    if found.numel() == 0:
        raise ValueError(f"domains must have shape [items], got {list(found.shape)}")
    check_keys("domains", found, (found.shape[0] if found.ndim else 1,), keys=0)
    return found.long().cpu()
