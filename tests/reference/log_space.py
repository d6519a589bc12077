"""Each objective on one row of logits, in float64 and log space: right at any size of the logits.

``positive`` is a number, ``unlabeled`` a vector of those that count. No gradients.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

Row = NDArray[np.float64]


def softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def info_nce(positive: float, unlabeled: Row) -> float:
    return softplus(logsumexp(unlabeled) - positive) if len(unlabeled) else 0.0


def cdf(unlabeled: Row, ranks: str) -> Row:
    """Mid- or upper ranks over their number, by comparison with every other."""
    below = (unlabeled[None, :] < unlabeled[:, None]).sum(axis=1)
    equal = (unlabeled[None, :] == unlabeled[:, None]).sum(axis=1)
    return (below + (equal if ranks == "upper" else equal / 2)) / len(unlabeled)


def bayesian(
    positive: float, unlabeled: Row, *, alpha: float, beta: float, tau_plus: float, ranks: str
) -> float:
    if not len(unlabeled):
        return 0.0
    weights = rank_weights(unlabeled, alpha=alpha, beta=beta, tau_plus=tau_plus, ranks=ranks)
    kept = weights > 0
    if not kept.any():
        return 0.0
    return softplus(logsumexp(unlabeled[kept], b=weights[kept]) - positive)


def rank_weights(unlabeled: Row, *, alpha: float, beta: float, tau_plus: float, ranks: str) -> Row:
    """Importance weights of candidates by their ranks."""
    low = alpha * (1 - tau_plus) + (1 - alpha) * tau_plus
    b, u = 2 * low, cdf(unlabeled, ranks)
    # Exactly 1 at the end, where a weight may be exactly 0.
    proposal = np.where(u == 1, 1.0, 2 * u / (b + np.sqrt(np.abs(b * b + 4 * (1 - b) * u))))
    target = (1 - beta) * alpha / ((1 - beta) * alpha + beta * (1 - alpha))
    if low == 1:  # both densities vanish alike at the end
        weights = np.ones_like(u)
    else:
        weights = (target * (1 - proposal) + (1 - target) * proposal) / (
            low * (1 - proposal) + (1 - low) * proposal
        )
    return weights


def sigmoid(positive: float, unlabeled: Row, weights: Row | None = None) -> float:
    """A yes for the positive, and a no for each candidate."""
    weights = np.ones_like(unlabeled) if weights is None else weights
    return softplus(-positive) + float((weights * np.logaddexp(0, unlabeled)).sum())


def hard(
    positive: float,
    unlabeled: Row,
    *,
    tau_plus: float,
    concentration: float,
    minimum_logit: float,
) -> float:
    if not len(unlabeled):
        return 0.0
    log_count = math.log(len(unlabeled))
    total = logsumexp((1 + concentration) * unlabeled)
    total -= logsumexp(concentration * unlabeled) - log_count
    rest = floor = log_count + minimum_logit
    if tau_plus == 0:
        rest = total
    elif (share := math.log(tau_plus) + log_count + positive - total) < 0:
        rest = total + math.log(-math.expm1(share)) - math.log1p(-tau_plus)
    return softplus(max(rest, floor) - positive)


def latent(
    positive: float,
    unlabeled: Row,
    same_class: Row,
    *,
    attraction: float,
    threshold: float,
    aim: str = "classes",
    sharpness: float = 1.0,
    certain: Row | None = None,
) -> float:
    if not len(unlabeled):
        return 0.0
    trusted = np.full(len(unlabeled), aim == "classes")
    if aim == "both" and certain is not None:
        trusted = certain.astype(bool)
    attracts, loss = np.where(same_class > threshold, same_class, 0.0), 0.0
    weights = np.where(trusted, 1 - same_class, 1.0)
    if weights.sum() > 0:
        weights = weights * len(weights) / weights.sum()
        loss = softplus(logsumexp(unlabeled, b=weights) - positive)
    pulls = attraction * np.where(trusted, attracts, 0.0)
    apart = np.where(pulls > 0, positive - unlabeled, 0.0)
    loss += float((pulls * apart).sum() / (1 + pulls.sum()))
    members, others = np.where(trusted, 0.0, attracts), 1 - same_class
    if not members.any() or not others.any():
        return loss
    rest = logsumexp(sharpness * unlabeled, b=others * len(others) / others.sum())
    for logit, share in zip(unlabeled[members > 0], members[members > 0], strict=True):
        strength = attraction * share / max(1.0, float(members.sum())) / sharpness
        loss += strength * softplus(rest - sharpness * logit)
    return loss
