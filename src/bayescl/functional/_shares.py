r"""The family that every class of candidates belongs to: mixtures of a pair's minimum and maximum.

A mixture is named by its *shares* :math:`(p, 1 - p)` of the minimum's and the maximum's density.
It has density :math:`2\phi\,[p(1-\Phi) + (1-p)\Phi]` and CDF
:math:`2p\,\Phi + (1 - 2p)\,\Phi^2`. Both shares are kept, since one minus a share near 1 would
lose what matters. The parameters' intervals are checked where they turn into shares.
"""

from __future__ import annotations

from bayescl._axes import Float, Tensor
from bayescl._checks import check_interval

Shares = tuple[float, float]
"""Shares of the minimum's and of the maximum's density; they add up to 1."""

MINIMUM: Shares = (1.0, 0.0)
MAXIMUM: Shares = (0.0, 1.0)


def check_alpha(alpha: float) -> float:
    """Refuse an ``alpha`` outside [0.5, 1]."""
    return check_interval("alpha", alpha, 0.5, 1.0)


def check_beta(beta: float) -> float:
    """Refuse a ``beta`` outside [0.5, 1]."""
    return check_interval("beta", beta, 0.5, 1.0)


def check_tau_plus(tau_plus: float) -> float:
    """Refuse a ``tau_plus`` outside [0, 1)."""
    return check_interval("tau_plus", tau_plus, 0.0, 1.0, open_high=True)


def true_negative_shares(alpha: float) -> Shares:
    """True negatives are the smaller of the pair with probability ``alpha``."""
    check_alpha(alpha)
    return alpha, 1 - alpha


def false_negative_shares(alpha: float) -> Shares:
    """False negatives are the larger of the pair with probability ``alpha``."""
    check_alpha(alpha)
    return 1 - alpha, alpha


def unlabeled_shares(alpha: float, tau_plus: float) -> Shares:
    """Unlabeled candidates are false negatives with probability ``tau_plus``."""
    check_alpha(alpha)
    check_tau_plus(tau_plus)
    tau_minus = 1 - tau_plus
    return alpha * tau_minus + (1 - alpha) * tau_plus, (1 - alpha) * tau_minus + alpha * tau_plus


def hard_negative_shares(alpha: float, beta: float) -> Shares:
    """True negatives with their two parts weighted ``1 - beta`` and ``beta``, normalised."""
    check_alpha(alpha)
    check_beta(beta)
    easy, hard = (1 - beta) * alpha, beta * (1 - alpha)
    if easy + hard == 0:
        raise ValueError(
            "alpha and beta must not both be 1: a perfect encoder has no hard true negatives, "
            "so the target of importance sampling is empty"
        )
    return easy / (easy + hard), hard / (easy + hard)


def blend(cdf: Float[Tensor, "*shape"], shares: Shares) -> Float[Tensor, "*shape"]:
    """Half the ratio of the mixture's density to the proposal's."""
    # A convex combination of non-negative ends: nothing cancels.
    return (1 - cdf) * shares[0] + cdf * shares[1]


def mixture_cdf(cdf: Float[Tensor, "*shape"], shares: Shares) -> Float[Tensor, "*shape"]:
    """CDF of the mixture at given proposal CDF."""
    return cdf * (2 * shares[0] + (shares[1] - shares[0]) * cdf)


def mixture_root(value: Float[Tensor, "*shape"], shares: Shares) -> Float[Tensor, "*shape"]:
    """Proposal CDF at which the mixture's CDF has the given value; both in [0, 1]."""
    low, high = shares
    if low == 0:  # the equation is x^2 = value, and the quotient below would be 0 / 0 at 0
        return value.sqrt()
    # The textbook root of a x^2 + b x = value divides by 2a = 2 (high - low), which vanishes at
    # alpha = 0.5 or tau_plus = 0.5; its conjugate form stays finite and needs no epsilon. The
    # discriminant is a convex combination of its ends, so it cannot turn negative.
    discriminant = (1 - value) * low**2 + value * high**2
    return (value / (low + discriminant.sqrt())).clamp(max=1)
