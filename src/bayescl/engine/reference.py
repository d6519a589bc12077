"""The plain engine: the whole matrix of logits at once, gradients by autograd."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

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
from bayescl.batch import Batch
from bayescl.checks import is_eager_cpu
from bayescl.functional.objective import LogSumObjective, Objective
from bayescl.functional.similarity import candidate_logits, pair_logits

ObjectiveAt = Callable[[float | Tensor], Objective]
"""Returns the objective at a given temperature, on which the debiased objectives' floor depends."""


def reference_losses(
    batch: Batch, temperature: float | Float[Tensor, ""], objective_at: ObjectiveAt
) -> Float[Tensor, " pairs"]:
    """Compute one loss per pair from the full matrix of logits.

    Memory grows with pairs x candidates. It can be differentiated any number of times and works
    under ``torch.func.grad`` and ``torch.compile``.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
    """
    anchors = batch.anchors.embeddings
    tiles = [candidate_logits(anchors, block.embeddings, temperature) for block in batch.columns]
    unlabeled = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    positive = pair_logits(batch.pair_anchors.embeddings, batch.positives.embeddings, temperature)
    known: dict[str, Any] = {"valid": batch.mask()}
    known["same_class"], known["is_labeled"] = batch.posterior()
    if batch.anchor_of is not None:  # every pair as if it were alone
        index = batch.anchor_of
        unlabeled = unlabeled[index]
        known = {name: None if part is None else part[index] for name, part in known.items()}
    known["trust"] = batch.trust_of_unsettled
    losses = losses_of_logits(objective_at(temperature), positive, unlabeled, **known)
    return losses if batch.weight is None else losses * batch.weight


def losses_of_logits(
    objective: Objective,
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    valid: CandidateMask | None,
    same_class: Float[Tensor, "anchors candidates"] | None = None,
    **known: Any,
) -> PerAnchor:
    """Compute one loss per anchor from logits; NaN if a logit that counts is not finite.

    Args:
        objective: turns logits into losses.
        positive: logit of each anchor's positive.
        unlabeled: logits of each anchor's candidates.
        valid: True where a candidate counts; None if all do.
        same_class: posterior that candidates are of the anchor's class; passed, as ``known`` is,
            only to objectives that use it.
        **known: see :meth:`~bayescl.functional.LogSumObjective.pair_weights`.

    Raises:
        ValueError: if the objective returns anything but one value per anchor.
    """
    if isinstance(objective, LogSumObjective) and objective.reads_same_class:
        losses = objective(positive, unlabeled, valid=valid, same_class=same_class, **known)
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
    positive: PositiveLogits | None,
    unlabeled: UnlabeledLogits,
    valid: Callable[[], CandidateMask | None],
) -> Bool[Tensor, " anchors"] | None:
    """True where a logit that counts is NaN or infinite; None if surely none is."""
    unlabeled = unlabeled.detach()
    total = unlabeled.sum()
    # A sum is not finite if a term is not, and takes a fraction of the time to look at each.
    if positive is not None:
        total = total + positive.detach().sum()
    if is_eager_cpu(unlabeled) and math.isfinite(total):
        return None
    bad, mask = ~unlabeled.isfinite(), valid()
    if mask is not None:
        bad = bad & mask
    rows = bad.any(dim=1)
    return rows if positive is None else rows | ~positive.detach().isfinite()
