"""Importance weights that turn unlabeled candidates into (hard) true negatives."""

from __future__ import annotations

from functools import partial

import torch

from bayescl._ops.log_space import at_least_float32
from bayescl._ops.mixture import PairMixture, proposal_cdf
from bayescl._ops.ranks import Ranks, map_cdf
from bayescl._types import Bool, Float, Tensor


def importance_weights(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float, beta: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    r"""Compute the density ratio of hard true negatives to unlabeled candidates.

    .. math::
        w = \frac{\phi_{THN}}{\phi_{UN}}
          = \frac{e\,(1-\Phi) + (1-e)\,\Phi}{p\,(1-\Phi) + (1-p)\,\Phi}, \qquad
        e = \frac{(1-\beta)\,\alpha}{(1-\beta)\,\alpha + \beta\,(1-\alpha)}, \quad
        p = \alpha\,\tau^- + (1 - \alpha)\,\tau^+.

    Args:
        proposal_cdf: Proposal CDF, in [0, 1]; see :func:`~bayescl.functional.proposal_cdf`.
        alpha: Probability that a positive is the larger of two draws, in [0.5, 1].
        beta: Hardness, in [0.5, 1]. At 0.5 the weights only correct for false negatives. Larger
            values upweight similar candidates.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Non-negative weights with mean 1 over unlabeled candidates. At ``beta = 0.5`` they equal the
        posterior divided by ``1 - tau_plus`` (Lemma 1). At ``alpha = beta = 0.5`` they are 1.

    Raises:
        ValueError: if a parameter is out of range, or ``alpha`` and ``beta`` are both 1.

    Example:
        >>> importance_weights(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, beta=0.5, tau_plus=0.1)
        tensor([1.0976, 1.0000, 0.5556])

    Reference:
        Liu et al., ICML 2024, the weights of Algorithm 1.
    """
    target = PairMixture.hard_negatives(alpha, beta)
    sampled = PairMixture.unlabeled(alpha, tau_plus)
    proposal_cdf = at_least_float32(proposal_cdf)
    # At alpha = 1 and tau_plus = 0, both densities are 1 - Phi: the quotient is 0 / 0 at Phi = 1.
    if sampled.high == 0:
        return torch.ones_like(proposal_cdf)
    # At Phi = 1, alpha = 1 and a tiny prior the denominator underflows; the weight must be 0.
    tiny = torch.finfo(proposal_cdf.dtype).tiny
    return target.half_ratio(proposal_cdf) / sampled.half_ratio(proposal_cdf).clamp(min=tiny)


def logit_weights(
    unlabeled: Float[Tensor, "*anchors candidates"],
    *,
    alpha: float,
    beta: float,
    tau_plus: float,
    valid: Bool[Tensor, "*anchors candidates"] | None = None,
    ranks: Ranks = "mid",
) -> Float[Tensor, "*anchors candidates"]:
    """Compute the importance weight of every candidate from its rank among the candidates.

    This applies :func:`~bayescl.functional.importance_weights` to
    :func:`~bayescl.functional.empirical_cdf`. Ranks are piecewise constant, so the weights have no
    gradient.

    Args:
        unlabeled: Logits of each anchor's candidates. Not differentiated.
        alpha: Probability that a positive is the larger of two draws, in [0.5, 1].
        beta: Hardness, in [0.5, 1]. At 0.5 the weights only debias.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).
        valid: True where a candidate counts. Default: all count.
        ranks: Kind of rank; see :func:`~bayescl.functional.empirical_cdf`. Default: ``"mid"``.

    Returns:
        Non-negative weights. With mid-ranks, their mean over a row's valid candidates is near 1 for
        any number of candidates. The weights are undefined where ``valid`` is False.

    Raises:
        ValueError: if a parameter is out of range.

    Example:
        >>> logits = torch.tensor([[0.3, 2.0, -1.0]])
        >>> logit_weights(logits, alpha=0.9, beta=0.5, tau_plus=0.1)
        tensor([[1.0394, 0.9148, 1.0838]])
    """
    weights = partial(weights_of_cdf, alpha=alpha, beta=beta, tau_plus=tau_plus)
    return map_cdf(unlabeled, weights, valid=valid, ranks=ranks)


def weights_of_cdf(
    unlabeled_cdf: Float[Tensor, "*shape"], *, alpha: float, beta: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    """Compute :func:`importance_weights` from the unlabeled CDF."""
    proposal = proposal_cdf(unlabeled_cdf, alpha=alpha, tau_plus=tau_plus)
    return importance_weights(proposal, alpha=alpha, beta=beta, tau_plus=tau_plus)
