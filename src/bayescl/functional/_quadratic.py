r"""The one-number family that every mixture of a pair's order statistics belongs to.

A mixture with slope :math:`b` has density :math:`\phi\,[b(1-\Phi) + (2-b)\Phi]` and CDF
:math:`b\,\Phi + (1-b)\,\Phi^2`: true negatives have :math:`b = 2\alpha`, false negatives
:math:`b = 2(1-\alpha)`, unlabeled candidates a value between. The parameters' intervals are
checked here too, since the slopes are where they enter.
"""

from __future__ import annotations

from bayescl._axes import Float, Tensor
from bayescl._checks import check_interval


def check_alpha(alpha: float) -> float:
    """Refuse an ``alpha`` outside [0.5, 1]."""
    return check_interval("alpha", alpha, 0.5, 1.0)


def check_beta(beta: float) -> float:
    """Refuse a ``beta`` outside [0.5, 1]."""
    return check_interval("beta", beta, 0.5, 1.0)


def check_tau_plus(tau_plus: float) -> float:
    """Refuse a ``tau_plus`` outside [0, 1)."""
    return check_interval("tau_plus", tau_plus, 0.0, 1.0, open_high=True)


def check_target(alpha: float, beta: float) -> None:
    """Refuse the one corner in which the target density has no mass."""
    check_alpha(alpha)
    check_beta(beta)
    if alpha == 1 and beta == 1:
        raise ValueError(
            "alpha and beta must not both be 1: a perfect encoder has no hard true negatives, "
            "so the target of importance sampling is empty"
        )


def unlabeled_slope(alpha: float, tau_plus: float) -> float:
    """The number ``b`` of the unlabeled mixture; true negatives have ``b = 2 alpha``."""
    return 2 * (alpha * (1 - tau_plus) + (1 - alpha) * tau_plus)


def mixture_density(
    density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"], b: float
) -> Float[Tensor, "*shape"]:
    """Density of the mixture with slope ``b`` in [0, 2] at given proposal density and CDF."""
    # A convex combination of non-negative ends: nothing cancels.
    return density * ((1 - cdf) * b + cdf * (2 - b))


def mixture_cdf(cdf: Float[Tensor, "*shape"], b: float) -> Float[Tensor, "*shape"]:
    """CDF of the mixture with slope ``b`` in [0, 2] at given proposal CDF."""
    return cdf * (b + (1 - b) * cdf)


def mixture_root(value: Float[Tensor, "*shape"], b: float) -> Float[Tensor, "*shape"]:
    """Solve ``b x + (1 - b) x^2 = value`` for the x in [0, 1]."""
    if b == 0:  # the equation is x^2 = value, and the quotient below would be 0 / 0 at 0
        return value.sqrt()
    # The textbook root divides by 1 - b, which vanishes at alpha = 0.5 or tau_plus = 0.5; its
    # conjugate form stays finite and needs no epsilon. The discriminant b^2 + 4 (1 - b) value is
    # a convex combination of its ends b^2 and (2 - b)^2, so it cannot turn negative.
    discriminant = (1 - value) * b**2 + value * (2 - b) ** 2
    return (2 * value / (b + discriminant.sqrt())).clamp(max=1)


def easy_share(alpha: float, beta: float) -> float:
    """Share of the target density that lies in the minimum's component, ``(1-beta) alpha / Z``."""
    easy, hard = (1 - beta) * alpha, beta * (1 - alpha)
    return easy / (easy + hard)
