"""Candidates kept from earlier batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Int, Tensor
from bayescl.batch import check_keys, write_latest
from bayescl.checks import check_count, check_floating, check_shape
from bayescl.losses.parameters import state_numbers


class CandidateQueue(nn.Module):
    """The latest embeddings of earlier batches, as further candidates without gradient.

    A queue starts empty and returns only filled places. All it holds is part of ``state_dict``, so
    training resumes exactly where it stopped. Nothing here waits for a GPU.

    Across processes, gather either in the loss or before the queue, but not both: every stored row
    would count once per process. With ``gather=True`` on the loss, each process stores its own rows
    and the loss sees the queues of all processes. With :func:`bayescl.distributed.gather` of what
    is enqueued, every process stores the rows of all. ``DistributedDataParallel`` overwrites
    buffers with those of rank 0: keep a queue that differs between processes outside the wrapped
    module.

    Args:
        size: number of places.
        dim: coordinates of an embedding.
        groups: whether an integer is stored with every row.

    Raises:
        ValueError: if ``size`` or ``dim`` is not a positive whole number.

    Example:
        >>> queue = CandidateQueue(size=4, dim=2)
        >>> queue.candidates is None
        True
        >>> queue.enqueue(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        >>> queue.candidates
        tensor([[1., 0.],
                [0., 1.]])

        In a training step, with in-batch candidates from the start and queued ones as they come::

            value = loss.in_batch(queries, keys, extra=queue.candidates)
            queue.enqueue(keys)

    Reference:
        He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR 2020.
    """

    embeddings: Tensor
    """All places, ``[size, dim]``; the first :attr:`filled` hold rows."""

    _groups: Tensor | None

    def __init__(self, size: int, dim: int, *, groups: bool = False) -> None:
        super().__init__()
        self.size = check_count("size", size, 1)
        self.dim = check_count("dim", dim, 1)
        self._came = 0
        self.register_buffer("embeddings", torch.zeros(size, dim))
        self.register_buffer("_groups", torch.zeros(size, dtype=torch.int64) if groups else None)

    @property
    def filled(self) -> int:
        """Number of filled places."""
        return min(self._came, self.size)

    @property
    def candidates(self) -> Float[Tensor, "filled dim"] | None:
        """A copy of the stored rows, not by age, for ``extra=`` of a loss; None while empty."""
        return self.embeddings[: self._came].clone() if self._came else None

    @property
    def groups(self) -> Int[Tensor, " filled"] | None:
        """The groups of :attr:`candidates`; None if there are none yet or the queue stores none."""
        kept = self._groups
        return None if kept is None or not self._came else kept[: self._came].clone()

    @torch.no_grad()
    def enqueue(
        self, embeddings: Float[Tensor, "rows dim"], groups: Int[Tensor, " rows"] | None = None
    ) -> None:
        """Store rows in place of the oldest ones; of more than ``size`` rows, the last.

        Args:
            embeddings: rows to store, oldest first, without their gradients.
            groups: one integer per row, if the queue stores groups.

        Raises:
            ValueError: if what is given does not fit.
        """
        kept = self._groups
        check_floating("embeddings", embeddings)
        check_shape("embeddings", embeddings, ("rows", self.dim))
        if groups is not None:
            check_keys("groups", groups, embeddings.shape[:1], keys=0)
        if (groups is None) != (kept is None):
            expected = "None" if kept is None else "given: this queue stores them"
            raise ValueError(f"groups must be {expected}")
        write_latest(self.embeddings, embeddings.detach(), self._came)
        if kept is not None and groups is not None:
            write_latest(kept, groups, self._came)
        self._came += embeddings.shape[0]

    def get_extra_state(self) -> dict[str, int]:
        """Return the number of rows that have come."""
        return {"came": self._came}

    def set_extra_state(self, state: Any) -> None:
        """Restore it from a ``state_dict``, or raise ``ValueError``."""
        state_numbers(type(self).__name__, state, ("came",))
        self._came = check_count("came", state["came"], 0)

    def extra_repr(self) -> str:
        """Show the sizes and what is stored."""
        with_groups = self._groups is not None
        return f"size={self.size}, dim={self.dim}, groups={with_groups}, filled={self.filled}"
