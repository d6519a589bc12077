"""Gradients to second order; random calls check values (``fuzz``)."""

from __future__ import annotations

import torch
from cases import each
from reference import objectives as reference
from torch import Tensor

TEMPERATURE = 0.5


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, dtype=torch.float64, generator=generator).requires_grad_()


@each("name", list(reference.WEIGHTINGS))
def test_gradients_through_embeddings_are_right_to_second_order(name: str) -> None:
    loss = reference.WEIGHTINGS[name].made(temperature=TEMPERATURE, engine="reference")
    inputs = (rows(3, 10, dim=3), rows(3, 20, dim=3))
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)
