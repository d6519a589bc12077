"""The expected observation of true negatives, by numerical integration."""

from __future__ import annotations

import numpy as np
import torch

from bayescl import functional as F
from bayescl.axes import PerAnchor
from bayescl_lab.paper.simulation.process import Quantile

NODES = 96
"""Points of the Gauss-Legendre rule; for uniform proposals it is exact to rounding."""


def true_negative_mean(
    quantile: Quantile, anchors: int, *, alpha: float, temperature: float
) -> PerAnchor:
    r"""Expected observation of the true negatives of each of ``anchors`` anchors.

    With :math:`u = \Phi(x)` the expectation is an integral over the unit interval,

    .. math::
        \theta = \int e^{x/t}\,\phi_{TN}(x)\,dx
               = \int_0^1 e^{\Phi^{-1}(u)/t}\,\frac{\phi_{TN}}{\phi}(u)\,du.

    It is exact to rounding for uniform proposals whose logits span less than a hundred, and good to
    three digits or so for normal ones at ``temperature`` 0.5.

    Reference:
        Liu et al., ICML 2024, the target of Eq. "sumtn".
    """
    nodes, shares = map(torch.from_numpy, np.polynomial.legendre.leggauss(NODES))
    level, share = (nodes + 1) / 2, shares / 2
    score = quantile(level.expand(anchors, NODES))
    ratio = F.PairMixture.true_negatives(alpha).density(torch.ones_like(level), level)
    return (torch.exp(score / temperature) * ratio * share).sum(dim=1)
