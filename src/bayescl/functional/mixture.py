r"""Two classes of candidates, as mixtures of the order statistics of a pair.

Draw two logits independently from an anchor's *proposal* distribution with density
:math:`\phi` and CDF :math:`\Phi`. The smaller has density :math:`\phi_{(1)} = 2\phi(1-\Phi)`,
the larger :math:`\phi_{(2)} = 2\phi\Phi`. An encoder that ranks a positive above a negative
with probability :math:`\alpha` puts the true negative in the smaller place that often:

.. math::
    \phi_{TN} = \alpha\,\phi_{(1)} + (1-\alpha)\,\phi_{(2)}, \qquad
    \phi_{FN} = \alpha\,\phi_{(2)} + (1-\alpha)\,\phi_{(1)}, \qquad
    \phi_{UN} = \tau^-\phi_{TN} + \tau^+\phi_{FN}.

Densities take the values of :math:`\phi` and :math:`\Phi` at the same points,
so any proposal distribution will do.

Reference:
    Liu et al., "Bayesian Self-Supervised Contrastive Learning", ICML 2024, Eqs. order1/2,
    phitn, phifn, unlabel, tnhard and cdftrans.
"""

from __future__ import annotations

from bayescl._axes import Float, Tensor
from bayescl.functional._shares import (
    MAXIMUM,
    MINIMUM,
    blend,
    false_negative_shares,
    hard_negative_shares,
    true_negative_shares,
    unlabeled_shares,
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
    return 2 * density * blend(cdf, MINIMUM)


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
    return 2 * density * blend(cdf, MAXIMUM)


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
    return 2 * density * blend(cdf, true_negative_shares(alpha))


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
    return 2 * density * blend(cdf, false_negative_shares(alpha))


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
    return 2 * density * blend(cdf, unlabeled_shares(alpha, tau_plus))


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
    return 2 * density * blend(cdf, hard_negative_shares(alpha, beta))
