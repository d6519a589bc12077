"""What each of two processes computes for the test of lightly's losses on several devices."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ranks.launch import Findings

pytest.importorskip("lightly", reason="needs lightly")

DIM, BATCH = 5, 4


def views(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    first, second = torch.randn(2, 2 * BATCH, DIM, generator=generator)
    return first, second


def on_a_rank(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from lightly.loss import NTXentLoss as Theirs

    from bayescl.integrations.lightly import NTXentLoss

    del world_size

    def steps(make: Any, bank: Any) -> list[Any]:
        criterion, found = make(0.5, bank, True), []
        for number in range(3):
            first, second = (
                view[rank * BATCH : (rank + 1) * BATCH].clone().requires_grad_()
                for view in views(number)
            )
            value = criterion(first, second)
            value.backward()
            gradient = torch.zeros(0) if second.grad is None else second.grad
            found.append([value.item(), first.grad.tolist(), gradient.tolist()])
        return found

    return {
        f"{name}, {bank}": steps(make, bank)
        for name, make in (("ours", NTXentLoss), ("theirs", Theirs))
        for bank in (0, (2 * BATCH, DIM))
    }
