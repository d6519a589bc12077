"""The candidates with the smallest and largest weights, to inspect without labels."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count


class Extremes(NamedTuple):
    """Columns of candidates at both ends for some anchors, the most extreme first."""

    down: Int[Tensor, "chosen shown"]
    """Those with the smallest weights."""

    up: Int[Tensor, "chosen shown"]
    """Those with the largest weights."""


@torch.no_grad()
def extreme_candidates(
    weights: Float[Tensor, "anchors candidates"],
    logits: Float[Tensor, "anchors candidates"],
    valid: Bool[Tensor, "anchors candidates"],
    *,
    anchors: Int[Tensor, " chosen"],
    count: int,
) -> Extremes:
    """Find the candidates most strongly down- and up-weighted for chosen anchors.

    Args:
        weights: the candidates' weights.
        logits: their logits. Among equal weights, which low ranks often have, the higher logit
            comes first, since it contributes more.
        valid: True where a candidate counts.
        anchors: the rows in question.
        count: number of candidates at each end, at least 1.

    Returns:
        Columns at the two ends. They overlap if an anchor has fewer than ``2 count`` candidates.

    Raises:
        ValueError: if an anchor has fewer than ``count`` candidates.

    Example:
        >>> weights = torch.tensor([[0.2, 1.0, 1.5, 1.3]])
        >>> extreme_candidates(
        ...     weights, -weights, weights > 0, anchors=torch.tensor([0]), count=2
        ... )
        Extremes(down=tensor([[0, 1]]), up=tensor([[2, 3]]))
    """
    check_count("count", count, 1)
    weights, logits, valid = weights[anchors], logits[anchors], valid[anchors]
    fewest = int(valid.sum(dim=1).min())
    if fewest < count:
        raise ValueError(f"count must be at most the {fewest} candidates of an anchor, got {count}")
    by_logit = logits.argsort(dim=1, descending=True, stable=True)
    sorted_weights = weights.gather(1, by_logit)
    ranked_valid = valid.gather(1, by_logit)

    def first(order_of: Tensor) -> Tensor:
        order = order_of.masked_fill(~ranked_valid, torch.inf).argsort(dim=1, stable=True)
        return by_logit.gather(1, order[:, :count])

    return Extremes(down=first(sorted_weights), up=first(-sorted_weights))
