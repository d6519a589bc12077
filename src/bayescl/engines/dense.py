"""The plain engine: the whole matrix of logits at once, gradients by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bayescl.axes import (
    Bool,
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.engines.batch import ContrastiveBatch
from bayescl.functional.objective import LogSumObjective, Objective
from bayescl.functional.sigmoid import Sigmoid
from bayescl.functional.similarity import candidate_logits, pair_logits
from bayescl.functional.sorting import is_eager_cpu

ObjectiveAt = Callable[[float | Tensor], Objective]
"""Returns the objective at a given temperature, on which the debiased objectives' floor depends."""


def dense_loss(
    batch: ContrastiveBatch, temperature: float | Float[Tensor, ""], objective_at: ObjectiveAt
) -> PerAnchor:
    """Compute one loss per anchor from the full matrix of logits.

    Memory grows with anchors x candidates. It can be differentiated any number of times and works
    under ``torch.func.grad`` and ``torch.compile``.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
    """
    positive = pair_logits(batch.anchors, batch.positives, temperature)
    unlabeled = candidate_logits(batch.anchors, batch.candidates, temperature)
    posterior, certain = batch.posterior()
    return logits_loss(
        objective_at(temperature),
        positive,
        unlabeled,
        valid=batch.mask(),
        same_class=posterior,
        certain=certain,
    )


def logits_loss(
    objective: Objective,
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    valid: CandidateMask | None,
    same_class: Float[Tensor, "anchors candidates"] | None = None,
    certain: Bool[Tensor, "anchors candidates"] | None = None,
) -> PerAnchor:
    """Compute one loss per anchor from logits; NaN if a logit that counts is not finite.

    Args:
        objective: turns logits into losses.
        positive: logit of each anchor's positive.
        unlabeled: logits of each anchor's candidates.
        valid: True where a candidate counts; None if all do.
        same_class: posterior that candidates are of the anchor's class; passed only to objectives
            that use it.
        certain: True where labels settle that posterior.

    Raises:
        ValueError: if the objective returns anything but one value per anchor.
    """
    if isinstance(objective, (LogSumObjective, Sigmoid)) and objective.reads_same_class:
        losses = objective(positive, unlabeled, valid=valid, same_class=same_class, certain=certain)
    else:
        losses = objective(positive, unlabeled, valid=valid)
    checked_losses(losses, positive)
    bad = rows_not_finite(positive, unlabeled, lambda: valid)
    return losses if bad is None else losses * torch.where(bad, torch.nan, 1.0)


def checked_losses(losses: PerAnchor, positive: PositiveLogits) -> PerAnchor:
    """Refuse an objective's result unless it is one value per anchor."""
    if not isinstance(losses, Tensor):
        raise TypeError(f"objective must return a tensor, got {type(losses).__name__}")
    if losses.shape != positive.shape:
        raise ValueError(
            f"objective must return one value per anchor, shape {list(positive.shape)}, "
            f"got {list(losses.shape)}"
        )
    return losses


def rows_not_finite(
    positive: PositiveLogits, unlabeled: UnlabeledLogits, valid: Callable[[], CandidateMask | None]
) -> Bool[Tensor, " anchors"] | None:
    """True where a logit that counts is NaN or infinite; None if surely none is."""
    positive, unlabeled = positive.detach(), unlabeled.detach()
    # A sum is not finite if a term is not, and takes a fraction of the time to look at each.
    if is_eager_cpu(unlabeled) and math.isfinite(unlabeled.sum() + positive.sum()):
        return None
    bad, mask = ~unlabeled.isfinite(), valid()
    if mask is not None:
        bad = bad & mask
    return bad.any(dim=1) | ~positive.isfinite()
