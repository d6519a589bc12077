r"""Two classes of candidates, as mixtures of the order statistics of a pair.

Draw two logits independently from an anchor's *proposal* distribution with density
:math:`\phi` and CDF :math:`\Phi`. The smaller has density :math:`\phi_{(1)} = 2\phi(1-\Phi)`,
the larger :math:`\phi_{(2)} = 2\phi\Phi`. If an encoder ranks a positive above a negative with
probability :math:`\alpha`, then the true negative is the smaller of the two with that probability:

.. math::
    \phi_{TN} = \alpha\,\phi_{(1)} + (1-\alpha)\,\phi_{(2)}, \qquad
    \phi_{FN} = \alpha\,\phi_{(2)} + (1-\alpha)\,\phi_{(1)}, \qquad
    \phi_{UN} = \tau^-\phi_{TN} + \tau^+\phi_{FN}.

All of them, and the target of importance sampling, are a :class:`PairMixture`. Functions here take
the values of :math:`\phi` and :math:`\Phi` at the same points, so they work for any proposal
distribution.

Reference:
    Liu et al., "Bayesian Self-Supervised Contrastive Learning", ICML 2024, Eqs. order1/2,
    phitn, phifn, unlabel, tnhard and cdftrans.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_interval


@dataclass(frozen=True)
class PairMixture:
    r"""A mixture of the minimum's and the maximum's density of a pair.

    Both shares are kept, since one minus a share near 1 loses precision.

    Attributes:
        low: share of the minimum's density, in [0, 1].
        high: share of the maximum's; the two add up to 1.

    Example:
        >>> mixture = PairMixture(0.75, 0.25)
        >>> mixture.cdf(torch.tensor([0.5])), mixture.quantile(torch.tensor([0.625]))
        (tensor([0.6250]), tensor([0.5000]))
    """

    low: float
    high: float

    def half_ratio(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Half the ratio of the mixture's density to the proposal's, at given proposal CDF."""
        # A convex combination of non-negative ends: nothing cancels.
        return (1 - cdf) * self.low + cdf * self.high

    def density(
        self, density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Density of the mixture at points of given proposal density and CDF."""
        return 2 * density * self.half_ratio(cdf)

    def cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """CDF of the mixture at given proposal CDF."""
        # low (1 - (1 - x)^2) + high x^2, the CDFs of minimum and maximum, in one product.
        return cdf * (2 * self.low + (self.high - self.low) * cdf)

    def quantile(self, level: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Proposal CDF at which the mixture's CDF has the given value; both in [0, 1]."""
        if self.low == 0:  # the equation is x^2 = level, and the quotient below 0 / 0 at 0
            return level.sqrt()
        # The textbook root of a x^2 + b x = level divides by 2a = 2 (high - low), which vanishes
        # at alpha = 0.5 or tau_plus = 0.5; its conjugate form stays finite and needs no epsilon.
        # The discriminant is a convex combination of its ends, so it cannot turn negative.
        # (b^2 + 4 a level) / 4 = low^2 + (high - low) level, and high + low = 1.
        discriminant = (1 - level) * self.low**2 + level * self.high**2
        return (level / (self.low + discriminant.sqrt())).clamp(max=1)


MINIMUM, MAXIMUM = PairMixture(1.0, 0.0), PairMixture(0.0, 1.0)


def check_alpha(alpha: float) -> float:
    """Refuse an ``alpha`` outside [0.5, 1]."""
    return check_interval("alpha", alpha, 0.5, 1.0)


def check_beta(beta: float) -> float:
    """Refuse a ``beta`` outside [0.5, 1]."""
    return check_interval("beta", beta, 0.5, 1.0)


def check_tau_plus(tau_plus: float) -> float:
    """Refuse a ``tau_plus`` outside [0, 1)."""
    return check_interval("tau_plus", tau_plus, 0.0, 1.0, open_high=True)


def true_negatives(alpha: float) -> PairMixture:
    """True negatives are the smaller of the pair with probability ``alpha``."""
    check_alpha(alpha)
    return PairMixture(alpha, 1 - alpha)


def false_negatives(alpha: float) -> PairMixture:
    """False negatives are the larger of the pair with probability ``alpha``."""
    check_alpha(alpha)
    return PairMixture(1 - alpha, alpha)


def unlabeled(alpha: float, tau_plus: float) -> PairMixture:
    """Unlabeled candidates are false negatives with probability ``tau_plus``."""
    check_alpha(alpha)
    tau_minus = 1 - check_tau_plus(tau_plus)
    # tau- (alpha, 1 - alpha) + tau+ (1 - alpha, alpha), as shares of minimum and maximum
    return PairMixture(
        alpha * tau_minus + (1 - alpha) * tau_plus, (1 - alpha) * tau_minus + alpha * tau_plus
    )


def hard_negatives(alpha: float, beta: float) -> PairMixture:
    """True negatives with their two parts weighted ``1 - beta`` and ``beta``, normalised."""
    # True negatives below a positive are a share alpha of them, those above one 1 - alpha.
    easy, hard = (1 - check_beta(beta)) * check_alpha(alpha), beta * (1 - alpha)
    if easy + hard == 0:
        raise ValueError(
            "alpha and beta must not both be 1: a perfect encoder has no hard true negatives, "
            "so the target of importance sampling is empty"
        )
    return PairMixture(easy / (easy + hard), hard / (easy + hard))


def minimum_density(
    density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{(1)} = 2\phi(1-\Phi)` of the smaller of two draws.

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].

    Example:
        >>> minimum_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]))
        tensor([2., 1., 0.])

    Reference:
        Liu et al., ICML 2024, Eq. "order1".
    """
    return MINIMUM.density(density, cdf)


def maximum_density(
    density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{(2)} = 2\phi\Phi` of the larger of two draws.

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].

    Example:
        >>> maximum_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]))
        tensor([0., 1., 2.])

    Reference:
        Liu et al., ICML 2024, Eq. "order2".
    """
    return MAXIMUM.density(density, cdf)


def true_negative_density(
    density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{TN} = \alpha\phi_{(1)} + (1-\alpha)\phi_{(2)}` of true negatives.

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Non-negative values that integrate to 1 where ``density`` does (Proposition 1).

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> true_negative_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]), alpha=0.75)
        tensor([1.5000, 1.0000, 0.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "phitn".
    """
    return true_negatives(alpha).density(density, cdf)


def false_negative_density(
    density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{FN} = \alpha\phi_{(2)} + (1-\alpha)\phi_{(1)}` of false negatives.

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Non-negative values that integrate to 1 where ``density`` does (Proposition 1).

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> false_negative_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]), alpha=0.75)
        tensor([0.5000, 1.0000, 1.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "phifn".
    """
    return false_negatives(alpha).density(density, cdf)


def unlabeled_density(
    density: Float[Tensor, "*shape"],
    cdf: Float[Tensor, "*shape"],
    *,
    alpha: float,
    tau_plus: float,
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{UN} = \tau^-\phi_{TN} + \tau^+\phi_{FN}` of unlabeled candidates.

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        tau_plus: prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Non-negative values that integrate to 1 where ``density`` does.

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` is out of range.

    Example:
        >>> unlabeled_density(torch.ones(2), torch.tensor([0.0, 1.0]), alpha=0.75, tau_plus=0.25)
        tensor([1.2500, 0.7500])

    Reference:
        Liu et al., ICML 2024, Eq. "unlabel".
    """
    return unlabeled(alpha, tau_plus).density(density, cdf)


def hard_negative_density(
    density: Float[Tensor, "*shape"],
    cdf: Float[Tensor, "*shape"],
    *,
    alpha: float,
    beta: float,
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{THN}` of true negatives at hardness ``beta``: the sampling target.

    True negatives above a positive are weighted by ``beta``, those below one by ``1 - beta``, and
    the result is normalised:

    .. math::
        \phi_{THN} = \frac{(1-\beta)\,\alpha\,\phi_{(1)} + \beta\,(1-\alpha)\,\phi_{(2)}}{Z},
        \qquad Z = (1-\beta)\,\alpha + \beta\,(1-\alpha).

    Args:
        density: proposal density, non-negative.
        cdf: proposal CDF at the same points, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        beta: hardness, in [0.5, 1]; 0.5 gives the true negatives' own density.

    Returns:
        Non-negative values that integrate to 1 where ``density`` does.

    Raises:
        ValueError: if ``alpha`` or ``beta`` is out of range, or both are 1 (``Z = 0``).

    Example:
        >>> cdf = torch.tensor([0.0, 1.0])
        >>> hard_negative_density(torch.ones(2), cdf, alpha=0.75, beta=0.75)
        tensor([1., 1.])

    Reference:
        Liu et al., ICML 2024, Eqs. "tnhard" and "ome".
    """
    return hard_negatives(alpha, beta).density(density, cdf)


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
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> true_negative_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=1.0)
        tensor([0.0000, 0.7500, 1.0000])
    """
    return true_negatives(alpha).cdf(proposal_cdf)


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
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> false_negative_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=1.0)
        tensor([0.0000, 0.2500, 1.0000])
    """
    return false_negatives(alpha).cdf(proposal_cdf)


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
        ValueError: if ``alpha`` or ``tau_plus`` is out of range.

    Example:
        >>> unlabeled_cdf(torch.tensor([0.0, 0.3537, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return unlabeled(alpha, tau_plus).cdf(proposal_cdf)


def true_negative_quantile(
    level: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """Proposal CDF at the ``level`` quantile of the true negatives.

    Args:
        level: probabilities, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1]; the inverse of :func:`true_negative_cdf`.

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> true_negative_quantile(torch.tensor([0.0, 0.75, 1.0]), alpha=1.0)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return true_negatives(alpha).quantile(level)


def false_negative_quantile(
    level: Float[Tensor, "*shape"], *, alpha: float
) -> Float[Tensor, "*shape"]:
    """Proposal CDF at the ``level`` quantile of the false negatives.

    Args:
        level: probabilities, in [0, 1].
        alpha: probability that a positive outscores a negative, in [0.5, 1].

    Returns:
        Values in [0, 1]; the inverse of :func:`false_negative_cdf`.

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> false_negative_quantile(torch.tensor([0.0, 0.25, 1.0]), alpha=1.0)
        tensor([0.0000, 0.5000, 1.0000])
    """
    return false_negatives(alpha).quantile(level)


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
        ValueError: if ``alpha`` or ``tau_plus`` is out of range.

    Example:
        >>> proposal_cdf(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.0000, 0.3537, 1.0000])

    Reference:
        Liu et al., ICML 2024, Eq. "cdftrans".
    """
    return unlabeled(alpha, tau_plus).quantile(unlabeled_cdf)


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
        Probabilities, decreasing in ``proposal_cdf``; ``1 - tau_plus`` everywhere at
        ``alpha = 0.5``, and 1 everywhere at ``tau_plus = 0``.

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` is out of range.

    Example:
        >>> posterior(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.9878, 0.9000, 0.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "poster".
    """
    mine, every = true_negatives(alpha), unlabeled(alpha, tau_plus)
    if tau_plus == 0:  # no false negatives; at alpha = 1 the quotient would be 0 / 0 at CDF 1
        return torch.ones_like(proposal_cdf)
    tiny = torch.finfo(proposal_cdf.dtype).tiny  # where a tiny prior underflows, at CDF 1
    return (
        (1 - tau_plus) * mine.half_ratio(proposal_cdf) / every.half_ratio(proposal_cdf).clamp(tiny)
    )
