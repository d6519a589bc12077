r"""Losses in which a posterior weighs, attracts and ranks an anchor's candidates.

With the positive's logit :math:`s^+` and the candidates' :math:`s_j`, an anchor's loss is

.. math::
    \log\Big(1 + \frac{\sum_j w_j e^{s_j}}{e^{s^+}}\Big) + \sum_j p_j (s^+ - s_j)
    + \sum_j m_j \log\Big(1 + \frac{N}{e^{\kappa s_j}}\Big)
    + c \log\Big(1 + \frac{\sum_j e^{\kappa s_j}}{e^{\kappa s^+}}\Big), \qquad
    N = \sum_k o_k e^{\kappa s_k}.

The formula is :func:`pair_losses` and its derivatives are :func:`pair_slopes`, given the logarithms
of the sums, which engines compute in their own ways.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import (
    CandidateMask,
    Float,
    Int,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.functional.log_space import contrast, masked_logsumexp, softplus


class Scaled(NamedTuple):
    """A matrix with a factor for each row, kept apart: scaling a row's sums is cheaper."""

    matrix: Float[Tensor, "anchors candidates"]
    factor: Float[Tensor, " anchors"]

    def sums(self, values: Float[Tensor, "anchors candidates"]) -> Float[Tensor, " anchors"]:
        """Each row's weighted sum of values."""
        sums: Tensor = torch.linalg.vecdot(self.matrix, values)
        return self.factor * sums


class PairWeights(NamedTuple):
    """What an objective makes of the posterior of pairs; constants for the gradient.

    Every matrix is 0 for what is not a candidate, and None if it is not needed.
    """

    repel: Scaled | None = None
    """Weights of the exponentials, :math:`w`; None if all candidates weigh 1."""
    attract: Scaled | None = None
    """Candidates' shares of the target, :math:`p`; the positive has the rest."""
    rank: Scaled | None = None
    """How strongly a member is ranked above the mean non-member, :math:`m`."""
    others: Scaled | None = None
    """Weights of the mean non-member, :math:`o`; given together with ``rank``."""
    sharpness: float = 1.0
    r"""How soon a member that leads is left alone, :math:`\\kappa`."""
    sharpen: float | Float[Tensor, ""] = 0.0
    """Weight of InfoNCE at the temperature over the sharpness, :math:`c`."""

    @property
    def powers(self) -> list[float]:
        """Powers of the unweighted exponentials that are summed."""
        sharp = self.sharpness != 1 and (self.rank is not None or self.is_sharpened)
        return [1.0, self.sharpness] if sharp else [1.0]

    @property
    def is_sharpened(self) -> bool:
        """Whether InfoNCE at the other temperature counts."""
        return isinstance(self.sharpen, Tensor) or self.sharpen > 0


class PairLogSums(NamedTuple):
    """Logarithms of each anchor's sums, which :func:`pair_losses` reads."""

    repelled: PerAnchor
    """Of the weighted exponentials, the sum of InfoNCE if all weigh 1."""
    others: PerAnchor | None
    """Of the mean non-member at the sharpness, :math:`N`."""
    sharp: PerAnchor | None
    """Of all exponentials at the sharpness."""


def pair_losses(
    positive: PositiveLogits,
    logits: UnlabeledLogits,
    log_sums: PairLogSums,
    weights: PairWeights,
    anchor_of: Int[Tensor, " pairs"] | None = None,
) -> PerAnchor:
    """Return one loss per positive, given the logarithms of the anchors' sums.

    Args:
        positive: logit of each positive.
        logits: of the candidates; 0 where a column is not a candidate.
        log_sums: of each anchor.
        weights: what the posterior makes of each candidate.
        anchor_of: which row each positive belongs to; None if one to each.
    """
    losses = contrast(positive, of_pairs(log_sums.repelled, anchor_of))
    of_anchors = torch.zeros_like(log_sums.repelled)
    if weights.attract is not None:
        matrix, factor = weights.attract
        losses = losses + of_pairs(factor * matrix.sum(dim=1), anchor_of) * positive
        of_anchors = of_anchors - weights.attract.sums(logits)
    if weights.rank is not None and log_sums.others is not None:
        behind = softplus(log_sums.others[:, None] - weights.sharpness * logits)
        of_anchors = of_anchors + weights.rank.sums(behind)
    if weights.is_sharpened and log_sums.sharp is not None:
        sharp = contrast(weights.sharpness * positive, of_pairs(log_sums.sharp, anchor_of))
        losses = losses + weights.sharpen * sharp
    return losses + of_pairs(of_anchors, anchor_of)


class PairSlopes(NamedTuple):
    """Derivatives of the (weighted) sum of :func:`pair_losses`."""

    positive: PositiveLogits
    """With respect to the positives' logits."""
    log_sums: PairLogSums
    """With respect to the logarithms of the anchors' sums."""
    logits: UnlabeledLogits | None
    """With respect to the candidates' logits, but for the sums; None for zeros."""


def pair_slopes(
    positive: PositiveLogits,
    logits: UnlabeledLogits,
    log_sums: PairLogSums,
    weights: PairWeights,
    anchor_of: Int[Tensor, " pairs"] | None,
    upstream: PerAnchor | None,
) -> PairSlopes:
    """Return the derivatives of :func:`pair_losses`; ``upstream`` weighs each loss."""
    share = torch.ones_like(positive) if upstream is None else upstream
    of_anchor = per_anchor(share, anchor_of, len(logits))
    slope = share * torch.sigmoid(positive.neg().add_(of_pairs(log_sums.repelled, anchor_of)))
    of_repelled = per_anchor(slope, anchor_of, len(logits))
    of_positive, of_logits, of_others, of_sharp = -slope, None, None, None
    if weights.attract is not None:
        matrix, factor = weights.attract
        of_positive += share * of_pairs(factor * matrix.sum(dim=1), anchor_of)
        of_logits = matrix * (-of_anchor * factor)[:, None]
    if weights.rank is not None and log_sums.others is not None:
        matrix, factor = weights.rank
        behind = torch.sigmoid(log_sums.others[:, None] - weights.sharpness * logits)
        drawn = behind.mul_(matrix).mul_((of_anchor * factor)[:, None])
        of_others = drawn.sum(dim=1)
        drawn *= -weights.sharpness
        of_logits = drawn if of_logits is None else of_logits.add_(drawn)
    if weights.is_sharpened and log_sums.sharp is not None:
        sharp = of_pairs(log_sums.sharp, anchor_of) - weights.sharpness * positive
        slope = share * weights.sharpen * torch.sigmoid(sharp)
        of_positive -= weights.sharpness * slope
        of_sharp = per_anchor(slope, anchor_of, len(logits))
    return PairSlopes(of_positive, PairLogSums(of_repelled, of_others, of_sharp), of_logits)


def weighted_pair_losses(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    weights: PairWeights,
    valid: CandidateMask | None,
) -> PerAnchor:
    """Return one loss per anchor, its sums differentiated by autograd any number of times."""
    logits = unlabeled if valid is None else torch.where(valid, unlabeled, 0)
    sharp = logits if weights.sharpness == 1 else weights.sharpness * logits
    log_sums = PairLogSums(
        _log_sum(logits, weights.repel, valid),
        None if weights.others is None else _log_sum(sharp, weights.others, valid),
        masked_logsumexp(sharp, valid) if weights.is_sharpened else None,
    )
    return pair_losses(positive, logits, log_sums, weights)


def _log_sum(
    logits: UnlabeledLogits, weights: Scaled | None, valid: CandidateMask | None
) -> PerAnchor:
    """Log of each row's weighted sum of exponentials."""
    if weights is None:
        return masked_logsumexp(logits, valid)
    # Candidates of weight 0 do not count: a sum over -inf alone would have a NaN gradient.
    counted = weights.matrix > 0
    log_weights = (torch.where(counted, weights.matrix, 1) * weights.factor[:, None]).log()
    return masked_logsumexp(logits + log_weights, counted)


def of_pairs(values: PerAnchor, anchor_of: Tensor | None) -> Float[Tensor, " pairs"]:
    """Each pair's value, given one of each anchor."""
    return values if anchor_of is None else values[anchor_of]


def per_anchor(values: Tensor, anchor_of: Tensor | None, anchors: int) -> PerAnchor:
    """Sums over each anchor's pairs."""
    if anchor_of is None:
        return values
    return values.new_zeros(anchors).index_add_(0, anchor_of, values)


def mean_1(weights: Float[Tensor, "anchors candidates"], count: Tensor) -> Scaled:
    """Weights with the factor that gives each row's mean 1; without weight nothing remains."""
    return Scaled(weights, count / weights.sum(dim=1).clamp_min_(1e-30))
