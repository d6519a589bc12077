"""The expectation targeted by the estimators, by integrating the true negatives' density."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from bayescl import functional as F
from bayescl.axes import Float, PerAnchor, Tensor
from bayescl_lab.paper.simulation.proposals import Proposals

NODES = 96
"""Points of the Gauss-Legendre rule; for uniform proposals it is exact to rounding."""


def true_negative_mean(
    proposals: Proposals, anchors: int, *, alpha: float, temperature: float
) -> PerAnchor:
    r"""Expected observation of each anchor's true negatives.

    With :math:`u = \Phi(x)` the expectation is an integral over the unit interval,

    .. math::
        \theta = \int e^{x/t}\,\phi_{TN}(x)\,dx
               = \int_0^1 e^{\Phi^{-1}(u)/t}\,\frac{\phi_{TN}}{\phi}(u)\,du.

    Args:
        proposals: the anchors' distributions.
        anchors: number of anchors.
        alpha: probability that a positive outscores a negative, in [0.5, 1].
        temperature: softmax scale, positive.

    Returns:
        Expectations in float64. Exact to rounding for uniform proposals whose logits span less
        than a hundred; good to three digits or so for normal ones at ``temperature`` 0.5.

    Raises:
        ValueError: if ``alpha`` is out of range.

    Example:
        >>> from bayescl_lab.paper.simulation import UniformProposals
        >>> wide = UniformProposals(torch.tensor([-1.0]), torch.tensor([1.0]))
        >>> true_negative_mean(wide, 1, alpha=0.5, temperature=1.0)  # sinh(1)
        tensor([1.1752], dtype=torch.float64)

    Reference:
        Liu et al., ICML 2024, the target of Eq. "sumtn".
    """
    level, share = _unit_interval_rule()
    score = proposals.quantile(level.expand(anchors, NODES), torch.arange(anchors)[:, None])
    ratio = F.true_negative_density(torch.ones_like(level), level, alpha=alpha)
    return (torch.exp(score / temperature) * ratio * share).sum(dim=1)


@lru_cache(maxsize=1)
def _unit_interval_rule() -> tuple[Float[Tensor, " nodes"], Float[Tensor, " nodes"]]:
    """Nodes and shares of the Gauss-Legendre rule on [0, 1]."""
    nodes, shares = np.polynomial.legendre.leggauss(NODES)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(shares / 2)
