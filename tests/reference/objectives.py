"""Each objective as a loop over candidates in float64, straight from its paper's formula.

``positive`` is a float64 scalar tensor, ``unlabeled`` a list of them (only those that count), so
autograd gives reference gradients as well. The table at the end says which function and which loss
of the library a loop is of, and where to compare them: a new weighting is a loop and a row here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

import bayescl
from bayescl import functional as F


def info_nce(positive: Tensor, unlabeled: list[Tensor]) -> Tensor:
    total = positive.exp()
    for logit in unlabeled:
        total = total + logit.exp()
    return -(positive.exp() / total).log()


def empirical_cdf(unlabeled: list[Tensor], index: int, ranks: str) -> float:
    values = [logit.item() for logit in unlabeled]
    below = sum(value < values[index] for value in values)
    equal = sum(value == values[index] for value in values)
    count = below + equal if ranks == "upper" else below + equal / 2
    return count / len(unlabeled)


def bayesian_weight(
    cdf: float, alpha: float, beta: float, tau_plus: float, epsilon: float = 0.0
) -> float:
    """Equations cdftrans and ome1; ``epsilon`` is what the authors' program adds to a and Z."""
    tau_minus = 1 - tau_plus
    a = (1 - 2 * alpha) * (tau_minus - tau_plus) + epsilon
    b = 2 * (alpha * tau_minus + (1 - alpha) * tau_plus)
    proposal = cdf if a == 0 else (-b + math.sqrt(b * b + 4 * a * cdf)) / (2 * a)
    z = (1 - beta) * alpha + beta * (1 - alpha) + epsilon
    target = ((1 - beta) * alpha + (beta - alpha) * proposal) / z
    sampled = (
        alpha * tau_minus
        + (1 - alpha) * tau_plus
        + (1 - 2 * alpha) * proposal * (tau_minus - tau_plus)
    )
    return target / sampled


def bayesian(
    positive: Tensor,
    unlabeled: list[Tensor],
    *,
    alpha: float,
    beta: float,
    tau_plus: float,
    ranks: str = "mid",
    epsilon: float = 0.0,
) -> Tensor:
    total = positive.exp()
    for index, logit in enumerate(unlabeled):
        cdf = empirical_cdf(unlabeled, index, ranks)
        total = total + bayesian_weight(cdf, alpha, beta, tau_plus, epsilon) * logit.exp()
    return -(positive.exp() / total).log()


def sigmoid(
    positive: Tensor,
    unlabeled: list[Tensor],
    *,
    bias: float = 0.0,
    ranks: str = "mid",
    **weighting: float,
) -> Tensor:
    """SigLIP's sum over pairs; weights by rank, if any, have mean 1."""
    weights = [1.0] * len(unlabeled)
    if weighting:
        cdf = [empirical_cdf(unlabeled, index, ranks) for index in range(len(unlabeled))]
        weights = [bayesian_weight(each, **weighting) for each in cdf]
    total = -torch.sigmoid(positive + bias).log()
    for logit, weight in zip(unlabeled, weights, strict=True):
        term = -torch.sigmoid(-(logit + bias)).log()
        total = total + weight * len(weights) / sum(weights) * term
    return total


def debiased(
    positive: Tensor, unlabeled: list[Tensor], *, tau_plus: float, minimum_logit: float
) -> Tensor:
    return hard(
        positive, unlabeled, tau_plus=tau_plus, concentration=0.0, minimum_logit=minimum_logit
    )


def hard(
    positive: Tensor,
    unlabeled: list[Tensor],
    *,
    tau_plus: float,
    concentration: float,
    minimum_logit: float,
) -> Tensor:
    count = len(unlabeled)
    mean = torch.zeros((), dtype=torch.float64)
    for logit in unlabeled:
        mean = mean + logit.exp() ** concentration / count
    total = torch.zeros((), dtype=torch.float64)
    for logit in unlabeled:
        total = total + logit.exp() ** concentration / mean * logit.exp()
    negative = (total - count * tau_plus * positive.exp()) / (1 - tau_plus)
    floor = torch.as_tensor(count * math.exp(minimum_logit), dtype=torch.float64)
    negative = torch.maximum(negative, floor)
    return -(positive.exp() / (positive.exp() + negative)).log()


class Weighting(NamedTuple):
    """A function on logits, the loss and the loop that are the same, and options of all three."""

    function: Callable[..., Tensor]
    loss: Callable[..., bayescl.ContrastiveLoss]
    loop: Callable[..., Tensor]
    options: dict[str, Any]

    def on_logits(
        self, minimum_logit: float
    ) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
        """The function and the loop, with the floor of those that have one."""
        floored = self.loop in (debiased, hard)
        options = {**self.options, "minimum_logit": minimum_logit} if floored else self.options
        return partial(self.function, **options), partial(self.loop, **options)

    @property
    def made(self) -> Callable[..., bayescl.ContrastiveLoss]:
        """Make the loss; further options may be given."""
        return partial(self.loss, **self.options)


BAYESIAN = (F.bayesian_loss, bayescl.BayesianContrastiveLoss, bayesian)
DEBIASED = (F.debiased_loss, bayescl.DebiasedContrastiveLoss, debiased)
PERFECT = {"alpha": 1.0, "beta": 0.7, "tau_plus": 0.1, "ranks": "upper"}
WEIGHTINGS = {
    "info_nce": Weighting(F.info_nce_loss, bayescl.InfoNCELoss, info_nce, {}),
    "debiased": Weighting(*DEBIASED, {"tau_plus": 0.1}),
    "debiased, floored": Weighting(*DEBIASED, {"tau_plus": 0.6}),
    "hard": Weighting(
        F.hard_loss, bayescl.HardContrastiveLoss, hard, {"tau_plus": 0.1, "concentration": 0.7}
    ),
    "bayesian": Weighting(*BAYESIAN, {"alpha": 0.9, "beta": 0.7, "tau_plus": 0.1}),
    "bayesian, hard, upper": Weighting(
        *BAYESIAN, {"alpha": 0.7, "beta": 1.0, "tau_plus": 0.01, "ranks": "upper"}
    ),
    "bayesian, perfect": Weighting(*BAYESIAN, PERFECT),
    "sigmoid": Weighting(F.sigmoid_loss, bayescl.SigmoidContrastiveLoss, sigmoid, {"bias": -2.0}),
    "sigmoid, Bayesian": Weighting(
        F.sigmoid_loss,
        bayescl.BayesianSigmoidLoss,
        sigmoid,
        {"alpha": 0.9, "beta": 0.7, "tau_plus": 0.1, "bias": -2.0},
    ),
}
