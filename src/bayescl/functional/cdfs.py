"""CDFs and quantiles of the two classes, and the way back from unlabeled to proposal CDF."""

from __future__ import annotations

from bayescl._axes import Float, Tensor
from bayescl.functional._shares import (
    false_negative_shares,
    mixture_cdf,
    mixture_root,
    true_negative_shares,
    unlabeled_shares,
)


def true_negative_cdf(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """CDF of true negatives at a point whose proposal CDF is given.

    Args:
        proposal_cdf: proposal CDF, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1], at least ``proposal_cdf``.

    Raises:
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> true_negative_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=1.0)
        tensor([0.0000, 0.7500, 1.0000])
    """
    return mixture_cdf(proposal_cdf, true_negative_shares(alpha))


def false_negative_cdf(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """CDF of false negatives at a point whose proposal CDF is given.

    Args:
        proposal_cdf: proposal CDF, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1], at most ``proposal_cdf``.

    Raises:
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> false_negative_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=1.0)
        tensor([0.0000, 0.2500, 1.0000])
    """
    return mixture_cdf(proposal_cdf, false_negative_shares(alpha))


def unlabeled_cdf(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    """CDF of unlabeled candidates at a point whose proposal CDF is given.

    The inverse of :func:`proposal_cdf`.

    Args:
        proposal_cdf: proposal CDF, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` leaves its interval.

    Example:
        >>> unlabeled_cdf(torch.tensor([0.0, 0.3537, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return mixture_cdf(proposal_cdf, unlabeled_shares(alpha, tau_plus))


def true_negative_quantile(
    level: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """Proposal CDF at the point below which a share ``level`` of the true negatives lies.

    Args:
        level: probabilities, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1]; the inverse of :func:`true_negative_cdf`.

    Raises:
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> true_negative_quantile(torch.tensor([0.0, 0.75, 1.0]), alpha=1.0)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return mixture_root(level, true_negative_shares(alpha))


def false_negative_quantile(
    level: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """Proposal CDF at the point below which a share ``level`` of the false negatives lies.

    Args:
        level: probabilities, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1]; the inverse of :func:`false_negative_cdf`.

    Raises:
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> false_negative_quantile(torch.tensor([0.0, 0.25, 1.0]), alpha=1.0)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return mixture_root(level, false_negative_shares(alpha))


def proposal_cdf(
    unlabeled_cdf: Float[Tensor, "*shape"], *, alpha: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    r"""Recover the anchor's proposal CDF from the CDF of its unlabeled logits.

    Unlabeled logits mix true and false negatives, so their CDF is a quadratic in the
    proposal CDF :math:`\Phi`; this is the root that lies in [0, 1]:

    .. math::
        \hat\Phi_{UN} = b\,\Phi + (1 - b)\,\Phi^2, \qquad
        b = 2\,[\alpha\,(1 - \tau^+) + (1 - \alpha)\,\tau^+].

    Args:
        unlabeled_cdf: empirical CDF values, each in [0, 1]. Not meant to be differentiated: ranks
            are piecewise constant.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Proposal CDF values in [0, 1], increasing in ``unlabeled_cdf``.

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` leaves its interval.

    Example:
        >>> proposal_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.0000, 0.3537, 1.0000])

    Reference:
        Liu et al., ICML 2024, Eq. "cdftrans".
    """
    return mixture_root(unlabeled_cdf, unlabeled_shares(alpha, tau_plus))
