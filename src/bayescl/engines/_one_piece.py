"""A fast CPU path for two views whose logits fit into one chunk.

In small batches, overhead takes longer than arithmetic. So nothing here is sliced or run on several
threads, and one product gives both gradients of the symmetric matrix of logits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import LOG2_E, add_log_weights
from bayescl.engines.batch import ContrastiveBatch
from bayescl.functional.log_space import softplus
from bayescl.functional.objective import LogSumObjective, Objective, as_data
from bayescl.functional.sorting import can_look

_LARGEST_POWER = 60.0
"""Powers of 2 up to this one, and sums of them, are far from the ends of float32."""


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
        or batch.knows_pairs
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
    """Compute losses and, if asked, the gradient of their (weighted) sum.

    None if a logit is not finite, or so large that exponentials need to be scaled.

    Args:
        objective: the result of :func:`softmax_in_one_piece`.
        batch: a batch whose anchors and positives are rows of its candidates.
        temperature: softmax scale.
        upstream: factor of each loss's gradient; default: ones.
        differentiate: whether to compute the gradient.
    """
    rows, count = batch.candidates, batch.num_anchors
    powers = _scaled_product(LOG2_E / temperature, rows, rows.T)  # of 2
    low, high = (bound.item() for bound in powers.aminmax())
    if not (low >= -_LARGEST_POWER and high <= _LARGEST_POWER):  # never with NaN
        return None
    flat = powers.numpy().reshape(-1)
    places = batch.rule.positive_places
    positive = torch.from_numpy(flat[places])
    excluded = batch.excluded(slice(0, count))
    if objective.ranks is None:
        flat[excluded.places(count)] = -np.inf
    else:
        add_log_weights(objective, powers, excluded, unit=LOG2_E, bounds=(low, high))
    exponentials = powers.exp2_()
    total = exponentials.sum(dim=1)
    gap = total.log2().sub_(positive).mul_(1 / LOG2_E)
    losses = softplus(gap)
    if not differentiate:
        return OnePiece(losses, None)
    slope = torch.sigmoid(gap)
    if upstream is not None:
        slope *= upstream
    if objective.may_drop or excluded.columns is None or excluded.columns.shape[1] == count:
        # The gradient of a sum of 0 is 0; elsewhere no sum is below the clamp.
        total.clamp_(min=torch.finfo(rows.dtype).tiny)
    flat[places] = -total.numpy()
    exponentials *= slope.div_(total)[:, None]
    exponentials += exponentials.T.contiguous()
    return OnePiece(losses, _scaled_product(1 / temperature, exponentials, rows))


def _scaled_product(scale: float, left: Tensor, right: Tensor) -> Tensor:
    """``scale * (left @ right)`` in one operation."""
    return torch.addmm(left.new_empty(1), left, right, beta=0, alpha=scale)
