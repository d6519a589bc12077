r"""Two classes of candidates, as mixtures of the order statistics of a pair.

Draw two logits independently from an anchor's *proposal* distribution with density
:math:`\phi` and CDF :math:`\Phi`. The smaller has density :math:`\phi_{(1)} = 2\phi(1-\Phi)`,
the larger :math:`\phi_{(2)} = 2\phi\Phi`. An encoder that ranks a positive above a negative
with probability :math:`\alpha` puts the true negative in the smaller place that often:

.. math::
    \phi_{TN} = \alpha\,\phi_{(1)} + (1-\alpha)\,\phi_{(2)}, \qquad
    \phi_{FN} = \alpha\,\phi_{(2)} + (1-\alpha)\,\phi_{(1)}, \qquad
    \phi_{UN} = \tau^-\phi_{TN} + \tau^+\phi_{FN}.

Each of them is :math:`\phi` times a line in :math:`\Phi` that falls or rises from
:math:`b` at :math:`\Phi = 0` to :math:`2 - b` at :math:`\Phi = 1`, so each CDF is
:math:`b\,\Phi + (1-b)\,\Phi^2`. One number :math:`b` names the mixture; everything here is
written with it. Densities take the values of :math:`\phi` and :math:`\Phi` at the same points,
so any proposal distribution will do.

Reference:
    Liu et al., "Bayesian Self-Supervised Contrastive Learning", ICML 2024, Eqs. order1/2,
    phitn, phifn, unlabel, tnhard and cdftrans.
"""

from __future__ import annotations

from bayescl._axes import Float, Tensor
from bayescl.functional._quadratic import (
    check_alpha,
    check_target,
    check_tau_plus,
    easy_share,
    mixture_density,
    unlabeled_slope,
)


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
    return mixture_density(density, cdf, 2.0)


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
    return mixture_density(density, cdf, 0.0)


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
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> true_negative_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]), alpha=0.75)
        tensor([1.5000, 1.0000, 0.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "phitn".
    """
    return mixture_density(density, cdf, 2 * check_alpha(alpha))


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
        ValueError: if ``alpha`` leaves its interval.

    Example:
        >>> false_negative_density(torch.ones(3), torch.tensor([0.0, 0.5, 1.0]), alpha=0.75)
        tensor([0.5000, 1.0000, 1.5000])

    Reference:
        Liu et al., ICML 2024, Eq. "phifn".
    """
    return mixture_density(density, cdf, 2 * (1 - check_alpha(alpha)))


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
        ValueError: if ``alpha`` or ``tau_plus`` leaves its interval.

    Example:
        >>> unlabeled_density(torch.ones(2), torch.tensor([0.0, 1.0]), alpha=0.75, tau_plus=0.25)
        tensor([1.2500, 0.7500])

    Reference:
        Liu et al., ICML 2024, Eq. "unlabel".
    """
    b = unlabeled_slope(check_alpha(alpha), check_tau_plus(tau_plus))
    return mixture_density(density, cdf, b)


def hard_negative_density(
    density: Float[Tensor, "*shape"],
    cdf: Float[Tensor, "*shape"],
    *,
    alpha: float,
    beta: float,
) -> Float[Tensor, "*shape"]:
    r"""Density :math:`\phi_{THN}` of true negatives at hardness ``beta``, the sampling target.

    A share ``beta`` of the mass that true negatives have above a positive, and ``1 - beta`` of
    what they have below one, normalised:

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
        ValueError: if ``alpha`` or ``beta`` leaves its interval, or both are 1 (``Z = 0``).

    Example:
        >>> cdf = torch.tensor([0.0, 1.0])
        >>> hard_negative_density(torch.ones(2), cdf, alpha=0.75, beta=0.75)
        tensor([1., 1.])

    Reference:
        Liu et al., ICML 2024, Eqs. "tnhard" and "ome".
    """
    check_target(alpha, beta)
    return mixture_density(density, cdf, 2 * easy_share(alpha, beta))
