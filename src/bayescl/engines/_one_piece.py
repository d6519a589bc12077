"""A fast CPU path for two views whose logits fit into one chunk.

In small batches, overhead takes longer than arithmetic. So nothing here is sliced or run on several
threads, and one product gives both gradients of the symmetric matrix of logits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch

from bayescl._axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import add_log_weights, exponentiate
from bayescl.engines.batch import ContrastiveBatch
from bayescl.functional.log_space import contrast
from bayescl.functional.objective import LogSumObjective, Objective, as_data
from bayescl.functional.sorting import can_look


class OnePiece(NamedTuple):
    """Losses and gradient."""

    losses: PerAnchor
    gradient: Float[Tensor, "anchors dim"] | None
    """Gradient of the rows, which are anchors, positives and candidates; None if not requested."""


def softmax_in_one_piece(objective: Objective, batch: ContrastiveBatch) -> LogSumObjective | None:
    """The objective as data if :func:`one_piece` can compute it, else None.

    Args:
        objective: any objective.
        batch: a batch whose anchors and positives are rows of its candidates.
    """
    data = as_data(objective)
    if (
        data is None
        or not data.is_softmax
        or data.powers != (1.0,)
        or data.ranks == "histogram"
        or batch.same_class is not None
        or not can_look(batch.anchors)
    ):
        return None
    return data


def one_piece(
    objective: LogSumObjective,
    batch: ContrastiveBatch,
    temperature: float,
    upstream: Float[Tensor, " anchors"] | None,
    *,
    differentiate: bool,
) -> OnePiece | None:
    """Compute losses and, if asked, the gradient of their (weighted) sum; None if not finite.

    Args:
        objective: the result of :func:`softmax_in_one_piece`.
        batch: a batch whose anchors and positives are rows of its candidates.
        temperature: softmax scale.
        upstream: factor of each loss's gradient; default: ones.
        differentiate: whether to compute the gradient.
    """
    rows, count = batch.candidates, batch.num_anchors
    logits = torch.mm(rows / temperature, rows.T)
    if not math.isfinite(logits.sum().item()):
        return None
    flat = logits.numpy().reshape(-1)
    places = batch.rule.positive_places
    positive = torch.from_numpy(flat[places])
    excluded = batch.excluded(slice(0, count))
    if objective.ranks is None:
        flat[excluded.places(count)] = -np.inf
    else:
        add_log_weights(objective, logits, excluded)
    (sums,) = exponentiate(logits)
    losses = contrast(positive, sums.log)
    if not differentiate:
        return OnePiece(losses, None)
    slope = torch.sigmoid(sums.log - positive)
    if upstream is not None:
        slope *= upstream
    # The gradient of a sum of 0 is 0; elsewhere no sum is below the clamp.
    total = sums.total.clamp_(min=torch.finfo(rows.dtype).tiny)
    flat[places] = -total.numpy()
    logits *= slope.div_(total).div_(temperature)[:, None]
    logits += logits.T.contiguous()
    return OnePiece(losses, logits @ rows)
