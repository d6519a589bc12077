"""Batches of few domains, so that every anchor has candidates of its own domain."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import Sampler

from bayescl import distributed
from bayescl.axes import Int, Tensor
from bayescl.checks import check_count, check_keys

__all__ = ["DomainBatchSampler"]

_SMALL = 9
"""Size of a domain below which a warning is given: two views of 8 items give an anchor 14
candidates, and with fewer than 16 InfoNCE lost accuracy (docs/quickstart/batches.md)."""

_EPOCH = 2**32  # seeds of one run's epochs lie this far from those of the next seed


class DomainBatchSampler(Sampler[list[int]]):
    """Batches that hold items of a few domains each, for losses with ``domains=``.

    Each epoch, the items of every domain are shuffled and cut into pieces of
    ``batch_size / num_domains``; the pieces are shuffled and put together. So every item comes once
    an epoch, and most batches hold about ``num_domains`` domains. The order depends only on the
    seed and the epoch.

    Across processes, each takes every ``num_processes``-th batch, and all take equally many.

    Args:
        domains: the domain of each item of the data set, an integer.
        batch_size: items in a batch.
        num_domains: pieces that a batch is made of, at most ``batch_size``.
        seed: of the order, from 0.
        drop_last: whether a last batch that is not full is left out.
        rank: number of this process. Default: its rank in torch's default process group, or 0
            without a group.
        num_processes: how many processes share the epoch. Default: the size of that group, or 1.

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
                f"batch_size must leave every process a batch, got {batch_size} for "
                f"{len(self.domains)} items on {num_processes} processes"
            )
        self._warn_of_small_domains()

    def _warn_of_small_domains(self) -> None:
        """Warn if most items have few others of their own domain."""
        _, places, counts = self.domains.unique(return_inverse=True, return_counts=True)
        median = int(counts[places].median())
        if median < min(self.batch_size // self.num_domains, _SMALL):
            warnings.warn(
                f"half of the items are in domains of at most {median} items, so with domains= "
                "they have few candidates: merge similar domains, or mark items of small ones with "
                "-1 in the loss, which agrees with every domain",
                stacklevel=3,
            )

    def __len__(self) -> int:
        """Number of this process's batches in an epoch."""
        items, size = len(self.domains), self.batch_size
        return (items // size if self.drop_last else -(-items // size)) // self.num_processes

    def __iter__(self) -> Iterator[list[int]]:
        """Return this process's batches of the epoch, after those that were drawn already."""
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
        """Draw the order of another epoch, from its start."""
        self.epoch, self.drawn = check_count("epoch", epoch, 0), 0

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of batches drawn in it, to continue in its midst."""
        return {"epoch": self.epoch, "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where :meth:`state_dict` was called, if batches are not drawn ahead."""
        self.set_epoch(state["epoch"])
        self.drawn = check_count("drawn", state["drawn"], 0)


def _integers(domains: Sequence[int] | Int[Tensor, " items"]) -> Int[Tensor, " items"]:
    """Return domains as a tensor on the CPU, or refuse what is not one integer per item."""
    try:
        found = torch.as_tensor(domains)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(
            f"domains must hold integers, got {str(domains)[:60]}: number them, for example by "
            "numpy.unique(domains, return_inverse=True)[1]"
        ) from None
    if found.numel() == 0:
        raise ValueError(f"domains must be one per item, got {list(found.shape)}")
    check_keys("domains", found, (found.shape[0] if found.ndim else 1,), keys=0)
    return found.long().cpu()
