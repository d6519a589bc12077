"""The choice of an engine for a batch."""

from __future__ import annotations

import logging
from typing import Literal

import torch

from bayescl.axes import PerAnchor, Tensor
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.chunked import chunked_loss
from bayescl.engines.dense import ObjectiveAt, dense_loss
from bayescl.engines.fused import fused_loss
from bayescl.engines.rounds import SpreadBatch, losses_in_rounds

Engine = Literal["auto", "dense", "chunked", "fused"]
ENGINES: tuple[Engine, ...] = ("auto", "dense", "chunked", "fused")

_SMALL = 2**13  # logits below which chunks gain nothing and the dense engine can do more

_log = logging.getLogger(__name__)


def select_engine(batch: ContrastiveBatch) -> tuple[Engine, str]:
    """Choose an engine for a batch; return its name and a short reason."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return "dense", "it can be traced"
    if batch.num_anchors * batch.num_candidates < _SMALL:
        return "dense", "the batch is small"
    return "chunked", "the matrix of logits is large"


def per_anchor_losses(
    batch: ContrastiveBatch,
    temperature: float | Tensor,
    objective_at: ObjectiveAt,
    *,
    engine: Engine = "auto",
    uniform: bool = False,
    chunk_size: int | None = None,
) -> tuple[PerAnchor, Engine]:
    """Compute one loss per anchor on an engine, and return the engine, too.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
        engine: name of the engine; ``"auto"`` chooses the dense or the chunked one by size.
        uniform: a promise about gradients; see :func:`~bayescl.engines.chunked_loss`.
        chunk_size: anchors at a time, for the chunked engine.
    """
    if isinstance(batch, SpreadBatch):
        return losses_in_rounds(batch, temperature, objective_at, chunk_size=chunk_size), "chunked"
    why = "it was asked for"
    if engine == "auto":
        engine, why = select_engine(batch)
    if not torch.compiler.is_compiling():
        _log.debug(
            "%s engine for %d x %d logits: %s", engine, batch.num_anchors, batch.num_candidates, why
        )
    if engine == "dense":
        return dense_loss(batch, temperature, objective_at), engine
    if engine == "fused":
        return fused_loss(batch, temperature, objective_at), engine
    losses = chunked_loss(batch, temperature, objective_at, uniform=uniform, chunk_size=chunk_size)
    return losses, engine
