"""The probability that an unlabeled candidate is a true negative."""

from __future__ import annotations

import torch

from bayescl._axes import Float, Tensor
from bayescl.functional._shares import blend, true_negative_shares, unlabeled_shares


def posterior(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    r"""Probability that a candidate is a true negative, given its logit's proposal CDF.

    Bayes' rule with the two class-conditional densities; the unknown proposal density cancels:

    .. math::
        P(TN \mid s) = \frac{\tau^-\,[\alpha(1-\Phi) + (1-\alpha)\Phi]}
        {p\,(1-\Phi) + (1-p)\,\Phi}, \qquad
        p = \alpha\,\tau^- + (1 - \alpha)\,\tau^+.

    Args:
        proposal_cdf: proposal CDF, in [0, 1]; see :func:`~bayescl.functional.proposal_cdf`.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Probabilities, falling in ``proposal_cdf``; ``1 - tau_plus`` everywhere at
        ``alpha = 0.5``, and 1 everywhere at ``tau_plus = 0``.

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` leaves its interval.

    Example:
        >>> posterior(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.9878, 0.9000, 0.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "poster".
    """
    true_negative = true_negative_shares(alpha)
    unlabeled = unlabeled_shares(alpha, tau_plus)
    if tau_plus == 0:  # no false negatives; at alpha = 1 the quotient would be 0 / 0 at CDF 1
        return torch.ones_like(proposal_cdf)
    return (1 - tau_plus) * blend(proposal_cdf, true_negative) / blend(proposal_cdf, unlabeled)
