"""Gradients that raise when they are differentiated again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def differentiable_once(*gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    """Return the results of a backward pass so that differentiating them raises an error.

    ``torch.autograd.function.once_differentiable`` does not raise in a second backward pass if the
    upstream gradient is a constant, as it is at the root of a graph.
    """
    if not torch.is_grad_enabled():
        return gradients
    return tuple(
        None if one is None else _Refusal.apply(one.detach().requires_grad_()) for one in gradients
    )


class _Refusal(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(_ctx: Any, *_upstream: Tensor) -> Tensor:
        raise RuntimeError(
            'this engine is differentiable once; use engine="dense" for a second backward'
        )
