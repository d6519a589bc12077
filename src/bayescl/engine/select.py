"""The choice of an engine for a batch."""

from __future__ import annotations

from typing import Literal

import torch

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch
from bayescl.engine.blocked import blocked_losses
from bayescl.engine.reference import ObjectiveAt, reference_losses

Engine = Literal["auto", "blocked", "reference"]
ENGINES: tuple[Engine, ...] = ("auto", "blocked", "reference")


def select_engine(engine: Engine = "auto") -> Engine:
    """Choose the reference while something traces, and else the blocked engine."""
    if engine != "auto":
        return engine
    traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return "reference" if traced else "blocked"


def pair_losses_of_batch(
    batch: Batch,
    temperature: float | Tensor,
    objective_at: ObjectiveAt,
    *,
    engine: Engine = "auto",
    shared_upstream: bool = False,
    chunk_size: int | None = None,
) -> Float[Tensor, " pairs"]:
    """Compute one loss per pair on an engine.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
        engine: name of the engine.
        shared_upstream: a promise about gradients; see :func:`blocked_losses`.
        chunk_size: anchors at a time, for the blocked engine.
    """
    if select_engine(engine) == "reference":
        return reference_losses(batch, temperature, objective_at)
    return blocked_losses(
        batch, temperature, objective_at, shared_upstream=shared_upstream, chunk_size=chunk_size
    )
