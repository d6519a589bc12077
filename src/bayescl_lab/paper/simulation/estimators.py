r"""Estimators of the mean observation of an anchor's true negatives, and its expectation.

Every contrastive loss here is :math:`-\log\frac{e^{s^+}}{e^{s^+} + N\hat\theta}` for some estimate
:math:`\hat\theta` of that mean, so each estimate can be read off from the loss. The debiased and
the hard estimate are obtained that way from the library's own objectives, including the floor, so
the experiments measure what trains. Supervised, biased and Bayesian estimates are weighted or
unweighted means.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from bayescl import functional as F
from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.functional.ranks import EXACT_RANKS
from bayescl_lab.paper.simulation.process import Observations, Quantile, Settings

SUPERVISED = "supervised"

NODES = 96
"""Points of the Gauss-Legendre rule; for uniform proposals it is exact to rounding."""

TITLES = {
    SUPERVISED: "supervised (true negatives only)",
    "biased": "biased (InfoNCE)",
    "debiased": "debiased",
    "hard": "hard negatives",
    "bayesian_upper": "Bayesian, upper ranks",
    "bayesian_upper_normalized": "Bayesian, upper ranks, self-normalised",
    "bayesian_mid": "Bayesian, mid-ranks",
    "bayesian_mid_normalized": "Bayesian, mid-ranks, self-normalised",
}
"""Every estimator by name; the paper's Bayesian one is ``bayesian_upper``."""

VARIANTS = tuple(name for name in TITLES if name.startswith("bayesian"))


def estimates(observed: Observations, settings: Settings) -> dict[str, PerAnchor]:
    r"""Every estimator's value for each anchor, by the names in :data:`TITLES`.

    =========================== ===============================================================
    ``supervised``              realised mean of the anchor's true negatives (Eq. "true"); NaN
                                for an anchor that has none
    ``biased``                  mean of all candidates
    ``debiased``                the candidates' sum less the positives' share, from K positives
                                (Eq. "DCLEstimator"), not below the floor :math:`e^{-1/t}`
    ``hard``                    the same with candidates weighted by a power of themselves
    ``bayesian_upper``          mean of candidates times importance weights, from upper ranks
    ``bayesian_mid``            the same from mid-ranks
    ``..._normalized``          the same, divided by the weights' mean
    =========================== ===============================================================

    Reference:
        Liu et al., ICML 2024, Eqs. "true", "BiasedEstimator", "DCLEstimator" and "ome1"; Robinson
        et al., ICLR 2021, Eq. 4.
    """
    unlabeled, tau_plus = observed.unlabeled, settings.tau_plus
    observation, counted = unlabeled.exp(), observed.true_negative
    # The losses know one positive logit; K positives enter as the logarithm of their mean.
    positive = observed.positives.logsumexp(dim=1) - math.log(observed.positives.shape[1])
    floor = -1 / settings.temperature
    losses = {
        "debiased": F.Debiased(tau_plus, floor)(positive, unlabeled),
        "hard": F.Hard(tau_plus, floor, settings.concentration)(positive, unlabeled),
    }
    values = {
        SUPERVISED: (observation * counted).sum(dim=1) / counted.sum(dim=1),
        "biased": observation.mean(dim=1),
        **{name: implied_mean(losses[name], positive, unlabeled.shape[1]) for name in losses},
    }
    for ranks in EXACT_RANKS:
        weight = F.logit_weights(
            unlabeled, alpha=settings.alpha, beta=settings.beta, tau_plus=tau_plus, ranks=ranks
        )
        values[f"bayesian_{ranks}"] = (weight * observation).mean(dim=1)
        values[f"bayesian_{ranks}_normalized"] = values[f"bayesian_{ranks}"] / weight.mean(dim=1)
    return {name: values[name] for name in TITLES}


def implied_mean(
    loss: Float[Tensor, "*shape"], positive: Float[Tensor, "*shape"], count: int
) -> Float[Tensor, "*shape"]:
    r"""The mean negative observation that a contrastive loss over ``count`` candidates implies.

    Solves :math:`\mathrm{loss} = \log(1 + N\theta\,e^{-s^+})` for :math:`\theta`.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> implied_mean(F.info_nce_loss(positive, unlabeled), positive, 2), unlabeled.exp().mean()
        (tensor([1.8591]), tensor(1.8591))
    """
    return positive.exp() * torch.expm1(loss) / count


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
