"""Rows for tests, and a count of the entries that autograd saves."""

from __future__ import annotations

import torch
from torch import Tensor


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    """Normal rows that depend on their seed alone."""
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


class Held(torch.autograd.graph.saved_tensors_hooks):
    """Counts the entries of the tensors that autograd saves for the backward pass."""

    def __init__(self) -> None:
        super().__init__(self._pack, lambda kept: kept.tensor)
        self.entries = self.peak = 0

    def _pack(self, tensor: Tensor) -> Kept:
        self.entries += tensor.numel()
        self.peak = max(self.peak, self.entries)
        return Kept(tensor, self)


class Kept:
    def __init__(self, tensor: Tensor, account: Held) -> None:
        self.tensor, self.account = tensor, account

    def __del__(self) -> None:
        self.account.entries -= self.tensor.numel()
