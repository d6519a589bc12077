r"""True and false negatives as mixtures of the order statistics of a pair.

Draw two logits independently from an anchor's *proposal* distribution with density
:math:`\phi` and CDF :math:`\Phi`. The smaller has density :math:`\phi_{(1)} = 2\phi(1-\Phi)`,
the larger :math:`\phi_{(2)} = 2\phi\Phi`. If an encoder ranks a positive above a negative with
probability :math:`\alpha`, then the true negative is the smaller of the two with that probability:

.. math::
    \phi_{TN} = \alpha\,\phi_{(1)} + (1-\alpha)\,\phi_{(2)}, \qquad
    \phi_{FN} = \alpha\,\phi_{(2)} + (1-\alpha)\,\phi_{(1)}, \qquad
    \phi_{UN} = \tau^-\phi_{TN} + \tau^+\phi_{FN}.

:class:`PairMixture` represents all three, and the target of importance sampling.

Reference:
    Liu et al., "Bayesian Self-Supervised Contrastive Learning", ICML 2024, Eqs. order1/2,
    phitn, phifn, unlabel, tnhard and cdftrans.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from bayescl._checks import check_count, check_interval
from bayescl._ops.log_space import at_least_float32
from bayescl._types import Float, Tensor


@dataclass(frozen=True)
class PairMixture:
    r"""Mixture of the densities of minimum and maximum of two draws from a proposal distribution.

    Both shares are stored, because one minus a share near 1 loses precision.

    Attributes:
        low: Share of the minimum's density :math:`\phi_{(1)}`, in [0, 1].
        high: Share of the maximum's density :math:`\phi_{(2)}`. The shares add up to 1.

    Example:
        >>> mixture = PairMixture.true_negatives(alpha=0.75)
        >>> mixture.density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]))
        tensor([1.5000, 1.0000, 0.5000])
        >>> mixture.cdf(torch.tensor([0.5])), mixture.quantile(torch.tensor([0.625]))
        (tensor([0.6250]), tensor([0.5000]))
    """

    low: float
    high: float

    @classmethod
    def true_negatives(cls, alpha: float) -> PairMixture:
        r"""Return :math:`\phi_{TN}`.

        With probability ``alpha``, in [0.5, 1], a true negative is the smaller of two draws.
        """
        check_alpha(alpha)
        return cls(alpha, 1 - alpha)

    @classmethod
    def false_negatives(cls, alpha: float) -> PairMixture:
        r"""Return :math:`\phi_{FN}`.

        With probability ``alpha``, in [0.5, 1], a false negative is the larger of two draws.
        """
        check_alpha(alpha)
        return cls(1 - alpha, alpha)

    @classmethod
    def unlabeled(cls, alpha: float, tau_plus: float) -> PairMixture:
        r"""Return :math:`\phi_{UN}`: a false negative with probability ``tau_plus``, in [0, 1)."""
        check_alpha(alpha)
        tau_minus = 1 - check_tau_plus(tau_plus)
        # tau- (alpha, 1 - alpha) + tau+ (1 - alpha, alpha), as shares of minimum and maximum
        return cls(
            alpha * tau_minus + (1 - alpha) * tau_plus, (1 - alpha) * tau_minus + alpha * tau_plus
        )

    @classmethod
    def hard_negatives(cls, alpha: float, beta: float) -> PairMixture:
        r"""Return the target of importance sampling: true negatives of hardness ``beta``.

        True negatives that score above a positive have the weight ``beta``, in [0.5, 1]. True
        negatives below have the weight ``1 - beta``:

        .. math::
            \phi_{THN} = \frac{(1-\beta)\,\alpha\,\phi_{(1)} + \beta\,(1-\alpha)\,\phi_{(2)}}
            {(1-\beta)\,\alpha + \beta\,(1-\alpha)}.
        """
        easy, hard = (1 - check_beta(beta)) * check_alpha(alpha), beta * (1 - alpha)
        if easy + hard == 0:
            raise ValueError(
                "alpha and beta must not both be 1: a perfect encoder has no hard true negatives, "
                "so the importance weights are undefined"
            )
        return cls(easy / (easy + hard), hard / (easy + hard))

    def half_ratio(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute half the ratio of the mixture's density to the proposal density."""
        # This convex combination of non-negative ends has no cancellation.
        return (1 - cdf) * self.low + cdf * self.high

    def density(
        self, density: Float[Tensor, "*shape"], cdf: Float[Tensor, "*shape"]
    ) -> Float[Tensor, "*shape"]:
        """Compute the density of the mixture at points with given proposal density and CDF."""
        return 2 * density * self.half_ratio(cdf)

    def cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the CDF of the mixture, given the proposal CDF."""
        # low (1 - (1 - x)^2) + high x^2, the CDFs of minimum and maximum, in one product.
        return cdf * (2 * self.low + (self.high - self.low) * cdf)

    def quantile(self, level: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Compute the proposal CDF at which the mixture's CDF has a given value in [0, 1]."""
        if self.low == 0:  # the equation is x^2 = level; the quotient below would be 0 / 0 at 0
            return level.sqrt()
        # The textbook root of a x^2 + b x = level divides by 2a = 2 (high - low), which vanishes
        # at alpha = 0.5 or tau_plus = 0.5; its conjugate form stays finite and needs no epsilon.
        # The discriminant is a convex combination of its ends, so it cannot turn negative.
        # (b^2 + 4 a level) / 4 = low^2 + (high - low) level, and high + low = 1.
        discriminant = (1 - level) * self.low**2 + level * self.high**2
        return (level / (self.low + discriminant.sqrt())).clamp(max=1)


# Each returns the parameter as a float, or raises ``ValueError`` if it is out of range.
check_alpha = partial(check_interval, "alpha", low=0.5, high=1.0)
check_beta = partial(check_interval, "beta", low=0.5, high=1.0)
check_tau_plus = partial(check_interval, "tau_plus", low=0.0, high=1.0, open_high=True)


def class_prior(tau_plus: float | None, num_classes: int | None) -> float:
    """Return ``tau_plus``; if ``None``, ``1 / num_classes``; if both are ``None``, 0.1."""
    if num_classes is not None:
        check_count("num_classes", num_classes, 2)
    if tau_plus is not None:
        return tau_plus
    return 0.1 if num_classes is None else 1 / num_classes


def proposal_cdf(
    unlabeled_cdf: Float[Tensor, "*shape"], *, alpha: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    r"""Recover the anchor's proposal CDF from the CDF of its unlabeled logits.

    Unlabeled logits are a mixture of true and false negatives, so their CDF is a quadratic function
    of the proposal CDF :math:`\Phi`. This function returns its root in [0, 1]:

    .. math::
        \hat\Phi_{UN} = b\,\Phi + (1 - b)\,\Phi^2, \qquad
        b = 2\,[\alpha\,(1 - \tau^+) + (1 - \alpha)\,\tau^+].

    Args:
        unlabeled_cdf: Empirical CDF values, each in [0, 1]. They have no useful gradient, because
            ranks are piecewise constant.
        alpha: Probability that a positive is the larger of two draws, in [0.5, 1].
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).

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
    return PairMixture.unlabeled(alpha, tau_plus).quantile(at_least_float32(unlabeled_cdf))


def posterior(
    proposal_cdf: Float[Tensor, "*shape"], *, alpha: float, tau_plus: float
) -> Float[Tensor, "*shape"]:
    r"""Compute the probability that a candidate is a true negative, given its proposal CDF.

    This is Bayes' rule with the densities of both classes. The unknown proposal density cancels:

    .. math::
        P(TN \mid s) = \frac{\tau^-\,[\alpha(1-\Phi) + (1-\alpha)\Phi]}
        {p\,(1-\Phi) + (1-p)\,\Phi}, \qquad
        p = \alpha\,\tau^- + (1 - \alpha)\,\tau^+.

    Args:
        proposal_cdf: Proposal CDF, in [0, 1]; see :func:`~bayescl.functional.proposal_cdf`.
        alpha: Probability that a positive is the larger of two draws, in [0.5, 1].
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).

    Returns:
        Probabilities, decreasing in ``proposal_cdf``. They equal ``1 - tau_plus`` at
        ``alpha = 0.5``, and 1 at ``tau_plus = 0``.

    Raises:
        ValueError: if ``alpha`` or ``tau_plus`` is out of range.

    Example:
        >>> posterior(torch.tensor([0.0, 0.5, 1.0]), alpha=0.9, tau_plus=0.1)
        tensor([0.9878, 0.9000, 0.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "poster".
    """
    target, sampled = PairMixture.true_negatives(alpha), PairMixture.unlabeled(alpha, tau_plus)
    proposal_cdf = at_least_float32(proposal_cdf)
    if tau_plus == 0:  # no false negatives; at alpha = 1 the quotient would be 0 / 0 at CDF 1
        return torch.ones_like(proposal_cdf)
    # At CDF 1, alpha = 1 and a tiny prior the denominator underflows; the result must be 0.
    density = sampled.half_ratio(proposal_cdf).clamp(min=torch.finfo(proposal_cdf.dtype).tiny)
    return (1 - tau_plus) * target.half_ratio(proposal_cdf) / density
