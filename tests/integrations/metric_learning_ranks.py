"""What each of two processes computes inside the library's wrapper for several devices."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ranks.launch import Findings

pytest.importorskip("pytorch_metric_learning", reason="needs pytorch-metric-learning")


def on_a_rank(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from pytorch_metric_learning.losses import NTXentLoss as Theirs
    from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

    from bayescl.integrations.pytorch_metric_learning import NTXentLoss

    del world_size

    def step(make: Any, efficient: bool) -> list[Any]:
        generator = torch.Generator().manual_seed(rank)
        rows = torch.randn(6, 4, generator=generator).requires_grad_()
        labels = torch.tensor([0, 0, 1, 1, 2, 3])
        value = DistributedLossWrapper(make(temperature=0.2), efficient)(rows, labels)
        value.backward()
        return [value.item(), rows.grad.tolist()]

    return {
        f"{name}, {efficient}": step(make, efficient)
        for name, make in (("ours", NTXentLoss), ("theirs", Theirs))
        for efficient in (False, True)
    }
