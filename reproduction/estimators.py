r"""Estimators of the mean observation of an anchor's true negatives.

Every contrastive loss here is :math:`-\log\frac{e^{s^+}}{e^{s^+} + N\hat\theta}` for some estimate
:math:`\hat\theta` of that mean. The debiased and the hard estimate are computed from the objectives
of the library, including the floor, so the experiments measure the losses that are used in
training.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from bayescl import functional as F
from reproduction.process import Observations, Settings

SUPERVISED = "supervised"


def estimates(observed: Observations, settings: Settings) -> dict[str, Float[Tensor, " anchors"]]:
    r"""Compute every estimator for each anchor; return the values by name.

    =========================== ===============================================================
    ``supervised``              realized mean of the anchor's true negatives (Eq. "true"); NaN
                                for an anchor that has none
    ``biased``                  mean of all candidates
    ``debiased``                the candidates' sum less the positives' share, from K positives
                                (Eq. "DCLEstimator"), not below the floor :math:`e^{-1/t}`
    ``hard``                    the same with candidates weighted by a power of themselves
    ``bayesian_upper``          mean of candidates times importance weights, from upper ranks: the
                                paper's
    ``bayesian_mid``            the same from mid-ranks
    =========================== ===============================================================

    Reference:
        Liu et al., ICML 2024, Eqs. "true", "BiasedEstimator", "DCLEstimator" and "ome1"; Robinson
        et al., ICLR 2021, Eq. 4.
    """
    unlabeled, tau_plus = observed.unlabeled, settings.tau_plus
    observation, counted, count = unlabeled.exp(), observed.true_negative, unlabeled.shape[1]
    # The losses know one positive logit; K positives enter as the logarithm of their mean.
    positive = observed.positives.logsumexp(dim=1) - math.log(observed.positives.shape[1])
    floor = -1 / settings.temperature
    debiased, hard = F.Debiased(tau_plus, floor), F.Hard(tau_plus, floor, settings.concentration)
    values = {
        SUPERVISED: (observation * counted).sum(dim=1) / counted.sum(dim=1),
        "biased": observation.mean(dim=1),
        "debiased": implied_mean(debiased(positive, unlabeled), positive, count),
        "hard": implied_mean(hard(positive, unlabeled), positive, count),
    }
    for ranks in ("upper", "mid"):
        weight = F.logit_weights(
            unlabeled, alpha=settings.alpha, beta=settings.beta, tau_plus=tau_plus, ranks=ranks
        )
        values[f"bayesian_{ranks}"] = (weight * observation).mean(dim=1)
    return values


def implied_mean(
    loss: Float[Tensor, "*shape"], positive: Float[Tensor, "*shape"], count: int
) -> Float[Tensor, "*shape"]:
    r"""Compute the mean negative observation that a loss over ``count`` candidates implies.

    This solves :math:`\mathrm{loss} = \log(1 + N\theta\,e^{-s^+})` for :math:`\theta`.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> implied_mean(F.info_nce_loss(positive, unlabeled), positive, 2), unlabeled.exp().mean()
        (tensor([1.8591]), tensor(1.8591))
    """
    return positive.exp() * torch.expm1(loss) / count
