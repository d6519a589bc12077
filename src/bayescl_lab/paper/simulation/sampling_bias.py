r"""What the biased loss learns: the curve with the jump.

A score that minimises the biased loss is proportional to :math:`p^+/p_d`, not to
:math:`p^+/p^-`. With :math:`\hat x^+ = m\,p^+/p_d` the desired ratio is
:math:`\hat x^+\tau^- / (m - \hat x^+\tau^+)`, which jumps from plus to minus infinity at
:math:`\hat x^+ = m/\tau^+`. But :math:`p_d = \tau^-p^- + \tau^+p^+ \ge \tau^+p^+`, so no score lies
beyond the jump: there the curve would need a negative density.
"""

from __future__ import annotations

import torch

from bayescl import functional as F
from bayescl.axes import Float, Tensor
from bayescl.checks import check_interval
from bayescl_lab.paper.simulation.curves import ALPHAS
from bayescl_lab.paper.simulation.tables import Table, Value

FORMULA, ATTAINED = "formula", "attained"


def density_ratio(score: Float[Tensor, "*shape"], *, tau_plus: float) -> Float[Tensor, "*shape"]:
    r"""The ratio :math:`p^+/p^-` for which a score minimises the biased loss.

    Args:
        score: score of a positive in units of m, that is :math:`p^+/p_d`, at least 0.
        tau_plus: prior probability that a candidate is a positive, in (0, 1).

    Returns:
        The ratio. It is negative, hence impossible, for scores above ``1 / tau_plus``.

    Raises:
        ValueError: if ``tau_plus`` is out of range.

    Example:
        >>> density_ratio(torch.tensor([1.0, 5.0, 20.0]), tau_plus=0.1)
        tensor([ 1.,  9., -18.])

    Reference:
        Liu et al., ICML 2024, Eq. "fractional".
    """
    check_interval("tau_plus", tau_plus, 0.0, 1.0, open_low=True, open_high=True)
    return score * (1 - tau_plus) / (1 - score * tau_plus)


def sampling_bias(tau_plus: float) -> Table:
    """The curve, and the parts of it that the mixture model reaches.

    Args:
        tau_plus: prior probability that a candidate is a positive, in (0, 1).

    Returns:
        Records with ``kind`` "formula" trace the curve on both sides of the jump. Those with
        ``kind`` "attained" are computed from the class-conditional densities at proposal CDF 0
        to 1, for each alpha.

    Raises:
        ValueError: if ``tau_plus`` is out of range.

    Reference:
        Liu et al., ICML 2024, appendix "Sampling Bias Analysis".
    """
    jump = 1 / tau_plus
    near = torch.linspace(0, 0.99 * jump, 150, dtype=torch.float64)
    beyond = torch.linspace(1.01 * jump, 2 * jump, 150, dtype=torch.float64)
    score = torch.cat([near, beyond])
    records: list[dict[str, Value]] = [
        {"kind": FORMULA, "alpha": 0.0, "tau_plus": tau_plus, "score": x, "ratio": y}
        for x, y in zip(
            score.tolist(), density_ratio(score, tau_plus=tau_plus).tolist(), strict=True
        )
    ]
    # At alpha 1 the ratio is unbounded at CDF 1, so stop short of it.
    cdf = torch.linspace(0, 0.99, 100, dtype=torch.float64)
    one = torch.ones_like(cdf)
    for alpha in ALPHAS:
        positive = F.false_negative_density(one, cdf, alpha=alpha)
        negative = F.true_negative_density(one, cdf, alpha=alpha)
        unlabeled = F.unlabeled_density(one, cdf, alpha=alpha, tau_plus=tau_plus)
        pairs = zip((positive / unlabeled).tolist(), (positive / negative).tolist(), strict=True)
        records += [
            {"kind": ATTAINED, "alpha": alpha, "tau_plus": tau_plus, "score": x, "ratio": y}
            for x, y in pairs
        ]
    return Table.of(records)
