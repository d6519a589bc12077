"""Engines that compute one loss per pair of a batch.

The blocked engine computes the logits of a few anchors at a time, with gradients in closed form.
The reference engine computes the whole matrix of logits and uses autograd. It defines the result,
and can be traced, compiled and differentiated any number of times.
"""

from __future__ import annotations

import os
from typing import Literal

from bayescl._engine.reference import ObjectiveAt
from bayescl._types import Float, Tensor
from bayescl.batch import Batch

Engine = Literal["auto", "blocked", "reference", "fused"]
ENGINES: tuple[Engine, ...] = ("auto", "blocked", "reference", "fused")


def fused_losses(
    batch: Batch, temperature: float | Tensor, objective_at: ObjectiveAt
) -> Float[Tensor, " pairs"] | None:
    """Compute one loss per pair with Triton kernels; ``None`` if they do not cover the batch."""
    if not batch.anchors.embeddings.is_cuda and os.environ.get("TRITON_INTERPRET") != "1":
        return None
    from bayescl._engine import fused  # imports Triton

    return fused.losses_if_covered(batch, temperature, objective_at)
