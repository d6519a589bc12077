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
candidates, fewer than the 16 below which losses warn."""

_EPOCH = 2**32  # distance between the generator seeds of consecutive values of ``seed``


class DomainBatchSampler(Sampler[list[int]]):
    """Sample batches with items of a few domains each, for losses with ``domains=``.

    In each epoch, the items of every domain are shuffled and split into pieces of
    ``batch_size // num_domains`` items. A batch has ``num_domains`` pieces of different domains,
    unless a domain has more pieces than there are batches. A domain smaller than a piece is
    one piece, and its batch is smaller.

    Each epoch has an order of its own. The order depends only on the seed and on the number of the
    epoch, which is counted from 0 or set by :meth:`set_epoch`.

    With several processes, each process takes every ``num_processes``-th batch, and all processes
    have the same number of batches.

    Args:
        domains: Domain of each item of the data set, an integer.
        batch_size: Largest number of items in a batch.
        num_domains: Number of domains in a batch, at most ``batch_size``. If there are fewer
            domains, all of them. Default: 4.
        seed: Seed of the order, at least 0. Default: 0.
        drop_last: Whether to skip, in each epoch, items that do not fill a piece of their domain
            (except in domains smaller than a piece) and pieces that do not fill a batch. Otherwise
            every item occurs once per epoch, and batches may be smaller. Default: True.
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

        With a data set::

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
        _, self._domain_of, self._counts = self.domains.unique(
            return_inverse=True, return_counts=True
        )
        self._held = min(num_domains, len(self._counts))
        self._size = batch_size // self._held
        whole = self._counts // self._size if drop_last else -(-self._counts // self._size)
        self._pieces = whole.clamp(min=1)
        total = int(self._pieces.sum())
        self._num_batches = total // self._held if drop_last else -(-total // self._held)
        self._has_begun = False
        self.set_epoch(0)
        if len(self) == 0 or (drop_last and len(self.domains) < batch_size):
            raise ValueError(
                f"batch_size must be small enough for one batch per process, got {batch_size} for "
                f"{len(self.domains)} items on {num_processes} processes"
            )
        median = int(self._counts[self._domain_of].median())
        if median < min(self._size, _SMALL):
            warnings.warn(
                f"half of the items are in domains of at most {median} items, so domains= leaves "
                "few candidates: merge similar domains, or set the domain of these items to -1, "
                "which matches every domain",
                stacklevel=2,
            )

    def __len__(self) -> int:
        """Return the number of this process's batches in an epoch."""
        return self._num_batches // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this process's batches of the epoch, without batches that were already drawn."""
        if self._has_begun:  # the last iteration was left before its end
            self.set_epoch(self.epoch + 1)
        self._has_begun = True
        for batch in self._batches()[self.rank :: self.num_processes][self.drawn : len(self)]:
            self.drawn += 1
            yield torch.cat(batch).tolist()
        self.set_epoch(self.epoch + 1)

    def _batches(self) -> list[list[Int[Tensor, " piece"]]]:
        """Return the pieces of every batch of the epoch."""
        generator = torch.Generator().manual_seed(self.seed * _EPOCH + self.epoch)
        order = torch.randperm(len(self.domains), generator=generator, device="cpu")
        rows = order[self._domain_of[order].argsort(stable=True)].split(self._counts.tolist())
        pieces: list[Tensor] = []
        priority = torch.rand(int(self._pieces.sum()), generator=generator, device="cpu")
        for domain in torch.randperm(len(rows), generator=generator, device="cpu").tolist():
            count = int(self._pieces[domain])
            priority[len(pieces) + self._num_batches : len(pieces) + count] += 1
            pieces += rows[domain][: count * self._size].tensor_split(count)
        # Skip pieces of domains that have more pieces than there are batches first.
        kept = priority.argsort()[: self._num_batches * self._held]
        # Pieces of one domain are neighbors, so dealing the pieces out separates them.
        dealt = [pieces[index] for index in kept.sort().values.tolist()]
        shuffled = torch.randperm(self._num_batches, generator=generator, device="cpu").tolist()
        return [dealt[index :: self._num_batches] for index in shuffled]

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, and start it from its first batch."""
        self.epoch, self.drawn = check_count("epoch", epoch, 0), 0
        self._has_begun = False

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of batches drawn, to resume in the middle of an epoch."""
        return {"epoch": self.epoch, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a :meth:`state_dict`. Batches prefetched before saving are skipped."""
        self.set_epoch(state["epoch"])
        self.drawn = check_count("drawn", state["drawn"], 0)


def _integers(domains: Sequence[int] | Int[Tensor, " items"]) -> Int[Tensor, " items"]:
    """Return domains as a tensor on the CPU; raise if they are not one integer per item."""
    try:
        found = torch.as_tensor(domains, device=getattr(domains, "device", "cpu"))
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"domains must contain integers, got {str(domains)[:60]}: number them, for example by "
            "numpy.unique(domains, return_inverse=True)[1]"
        ) from None
    if found.numel() == 0:
        raise ValueError(f"domains must have shape [items], got {list(found.shape)}")
    check_keys("domains", found, (found.shape[0] if found.ndim else 1,), keys=0)
    return found.long().cpu()
