"""Rows for tests."""

from __future__ import annotations

import torch
from torch import Tensor


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    """Normal rows that depend on their seed alone."""
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))
