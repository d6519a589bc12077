"""Each objective on one row of logits in float64, straight from its paper's formula.

``positive`` is a float64 scalar and ``unlabeled`` the logits that count, as tensors, so autograd
gives reference gradients as well. Sums of exponentials keep to their logarithms, so results are
right at any size of the logits. The table at the end says which function and which loss of the
library a row is of, and where to compare them: a new weighting is a function and a row here.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus as _softplus

import bayescl
from bayescl import functional as F

Row = Tensor | Sequence[Tensor]


def tensor_of(row: Row) -> Tensor:
    if isinstance(row, Tensor):
        return row
    return torch.stack([*row]) if len(row) else torch.empty(0, dtype=torch.float64)


def softplus(value: Tensor) -> Tensor:
    """log(1 + e^x); where PyTorch's rounds at its threshold, e^-60 is nothing."""
    return _softplus(value, threshold=60.0)


def log_sum(unlabeled: Row, weights: Tensor | None = None) -> Tensor:
    """Log of the weighted sum of exponentials; candidates without weight do not count."""
    logits = tensor_of(unlabeled)
    if weights is not None:
        logits = (logits + weights.log())[weights > 0]
    return logits.logsumexp(dim=0)


def info_nce(positive: Tensor, unlabeled: Row) -> Tensor:
    return softplus(log_sum(unlabeled) - positive)


def empirical_cdf(unlabeled: Row, ranks: str) -> Tensor:
    """Mid- or upper ranks over their number, by comparison with every other."""
    logits = tensor_of(unlabeled).detach()
    below = (logits[None, :] < logits[:, None]).sum(dim=1)
    equal = (logits[None, :] == logits[:, None]).sum(dim=1)
    return (below + (equal if ranks == "upper" else equal / 2)).double() / len(logits)


def bayesian_weight(cdf: float, alpha: float, beta: float, tau_plus: float) -> float:
    """Equations cdftrans and ome1."""
    tau_minus = 1 - tau_plus
    low = alpha * tau_minus + (1 - alpha) * tau_plus
    a, b = (1 - 2 * alpha) * (tau_minus - tau_plus), 2 * low
    # The root without a difference of equals, and 1 where a weight may be 0.
    proposal = 2 * cdf / (b + math.sqrt(max(0.0, b * b + 4 * a * cdf)))
    if cdf == 1:
        proposal = 1.0
    if low == 1:  # both densities vanish alike at the end
        return 1.0
    z = (1 - beta) * alpha + beta * (1 - alpha)
    target = ((1 - beta) * alpha * (1 - proposal) + beta * (1 - alpha) * proposal) / z
    return target / (low * (1 - proposal) + (1 - low) * proposal)


def rank_weights(unlabeled: Row, ranks: str = "mid", **parameters: float) -> Tensor:
    weights = [bayesian_weight(u, **parameters) for u in empirical_cdf(unlabeled, ranks).tolist()]
    return torch.tensor(weights, dtype=torch.float64)


def bayesian(positive: Tensor, unlabeled: Row, **parameters: Any) -> Tensor:
    weights = rank_weights(unlabeled, **parameters) if len(unlabeled) else None
    return softplus(log_sum(unlabeled, weights) - positive)


def hard(
    positive: Tensor, unlabeled: Row, *, tau_plus: float, concentration: float, minimum_logit: float
) -> Tensor:
    if not len(unlabeled):
        return info_nce(positive, unlabeled)
    logits = tensor_of(unlabeled)
    log_count = math.log(len(logits))
    total = log_sum((1 + concentration) * logits)
    total = total - (log_sum(concentration * logits) - log_count)
    rest = floor = log_count + minimum_logit + 0 * total  # which autograd is asked for
    if tau_plus == 0:
        rest = total
    elif (share := math.log(tau_plus) + log_count + positive - total) < 0:
        rest = total + (-torch.expm1(share)).log() - math.log1p(-tau_plus)
    return softplus(torch.maximum(rest, floor) - positive)


debiased = partial(hard, concentration=0.0)


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
        floor = {"minimum_logit": minimum_logit} if self.loop in (debiased, hard) else {}
        options = {**self.options, **floor}
        return partial(self.function, **options), partial(self.loop, **options)

    @property
    def made(self) -> Callable[..., bayescl.ContrastiveLoss]:
        """Make the loss; further options may be given."""
        return partial(self.loss, **self.options)


BAYESIAN = (F.bayesian_loss, bayescl.BayesianContrastiveLoss, bayesian)
DEBIASED = (F.debiased_loss, bayescl.DebiasedContrastiveLoss, debiased)
USUAL = {"alpha": 0.9, "beta": 0.7, "tau_plus": 0.1}
PERFECT = {"alpha": 1.0, "beta": 0.7, "tau_plus": 0.1, "ranks": "upper"}
WEIGHTINGS = {
    "info_nce": Weighting(F.info_nce_loss, bayescl.InfoNCELoss, info_nce, {}),
    "debiased": Weighting(*DEBIASED, {"tau_plus": 0.1}),
    "debiased, floored": Weighting(*DEBIASED, {"tau_plus": 0.6}),
    "hard": Weighting(
        F.hard_loss, bayescl.HardContrastiveLoss, hard, {"tau_plus": 0.1, "concentration": 0.7}
    ),
    "bayesian": Weighting(*BAYESIAN, USUAL),
    "bayesian, hard, upper": Weighting(
        *BAYESIAN, {"alpha": 0.7, "beta": 1.0, "tau_plus": 0.01, "ranks": "upper"}
    ),
    "bayesian, perfect": Weighting(*BAYESIAN, PERFECT),
}
