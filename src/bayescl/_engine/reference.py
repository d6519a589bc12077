"""The reference engine: the whole matrix of logits, with gradients by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bayescl._checks import is_eager_cpu
from bayescl._engine.targets import target_rows
from bayescl._ops.objective import Objective
from bayescl._ops.similarity import candidate_logits, pair_logits
from bayescl._ops.target import target_term
from bayescl._types import (
    Bool,
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.batch import Batch

ObjectiveAt = Callable[[float | Tensor], Objective]
"""Function that returns the objective at a temperature. Debiased objectives depend on it."""


def reference_losses(
    batch: Batch, temperature: float | Float[Tensor, ""], objective_at: ObjectiveAt
) -> Float[Tensor, " pairs"]:
    """Compute one loss per pair from the full matrix of logits.

    Memory grows with pairs x candidates. It can be differentiated any number of times and works
    under ``torch.func.grad`` and ``torch.compile``.
    """
    anchors, everyone = batch.anchors.embeddings, slice(0, batch.num_anchors)
    tiles = [candidate_logits(anchors, block.embeddings, temperature) for block in batch.columns]
    unlabeled = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    positive = pair_logits(
        batch.pair_anchors.embeddings, batch.pair_positives.embeddings, temperature
    )
    valid = batch.mask()
    target = None
    if batch.target is not None:
        target = target_rows(batch, batch.target, everyone, batch.excluded(everyone))
    if batch.anchor_of is not None:  # each pair gets its anchor's row
        unlabeled = unlabeled[batch.anchor_of]
        valid, target = (
            None if part is None else part[batch.anchor_of] for part in (valid, target)
        )
    losses = losses_of_logits(
        objective_at(temperature), positive, unlabeled, valid=valid, target=target
    )
    return losses if batch.weight is None else losses * batch.weight


def losses_of_logits(
    objective: Objective,
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    valid: CandidateMask | None,
    target: Float[Tensor, "anchors candidates"] | None = None,
) -> PerAnchor:
    """Compute one loss per anchor from logits; NaN if a logit that counts is not finite.

    The target must be 0 where ``valid`` is False.
    """
    losses = objective(positive, unlabeled, valid=valid)
    checked_losses(losses, positive)
    if target is not None:
        counted = unlabeled if valid is None else torch.where(valid, unlabeled, 0.0)
        losses = losses + target_term(positive, counted, target)
    bad = rows_not_finite(positive, unlabeled, lambda: valid)
    return losses if bad is None else losses * torch.where(bad, torch.nan, 1.0)


def checked_losses(losses: PerAnchor, positive: PositiveLogits) -> PerAnchor:
    """Return an objective's result; raise if it is not one value per anchor."""
    if not isinstance(losses, Tensor):
        raise TypeError(f"objective must return a tensor, got {type(losses).__name__}")
    if losses.shape != positive.shape:
        raise ValueError(
            f"objective must return one value per anchor, shape {list(positive.shape)}, "
            f"got {list(losses.shape)}"
        )
    return losses


def rows_not_finite(
    positive: PositiveLogits | None,
    unlabeled: UnlabeledLogits,
    valid: Callable[[], CandidateMask | None],
) -> Bool[Tensor, " anchors"] | None:
    """Return a mask of the rows with a non-finite, unmasked logit; ``None`` if all are finite."""
    unlabeled = unlabeled.detach()
    total = unlabeled.sum()
    # A sum is not finite if a term is not. It is much faster than a test of each term.
    if positive is not None:
        total = total + positive.detach().sum()
    if is_eager_cpu(unlabeled) and math.isfinite(total):
        return None
    bad, mask = ~unlabeled.isfinite(), valid()
    if mask is not None:
        bad = bad & mask
    rows = bad.any(dim=1)
    return rows if positive is None else rows | ~positive.detach().isfinite()
