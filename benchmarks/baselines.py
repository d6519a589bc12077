"""Baselines of the benchmarks: plain InfoNCE, and ranks by N x N comparison."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from bayescl.functional import importance_weights, proposal_cdf


def two_view_logits(view_1: Tensor, view_2: Tensor, temperature: float) -> Tensor:
    """Cosine logits of all rows of both views with one another."""
    rows = F.normalize(torch.cat([view_1, view_2]), dim=1)
    return rows @ rows.T / temperature


def cross_entropy_info_nce(view_1: Tensor, view_2: Tensor, temperature: float = 0.5) -> Tensor:
    """InfoNCE as most projects write it: mask the diagonal, then ``F.cross_entropy``."""
    batch = len(view_1)
    logits = two_view_logits(view_1, view_2, temperature)
    own = torch.eye(2 * batch, dtype=torch.bool, device=logits.device)
    target = torch.arange(2 * batch, device=logits.device).roll(batch)
    return F.cross_entropy(logits.masked_fill(own, -torch.inf), target)


def comparison_bayesian(
    view_1: Tensor,
    view_2: Tensor,
    temperature: float = 0.5,
    alpha: float = 0.9,
    beta: float = 0.9,
    tau_plus: float = 0.1,
) -> Tensor:
    """The Bayesian loss with each anchor's ranks found by comparing all pairs of candidates.

    This is the cost of the published program: an anchors x N x N comparison.
    """
    batch = len(view_1)
    exponentials = two_view_logits(view_1, view_2, temperature).exp()
    index = torch.arange(2 * batch)
    keep = torch.ones(2 * batch, 2 * batch, dtype=torch.bool)
    keep[index, index] = False
    keep[index, index.roll(batch)] = False
    positive = exponentials[index, index.roll(batch)]
    unlabeled = exponentials[keep].view(2 * batch, -1)
    with torch.no_grad():
        below = unlabeled[:, None, :] <= unlabeled[:, :, None]
        cdf = below.sum(dim=2) / unlabeled.shape[1]
        cdf = proposal_cdf(cdf, alpha=alpha, tau_plus=tau_plus)
        weights = importance_weights(cdf, alpha=alpha, beta=beta, tau_plus=tau_plus)
    negative = (weights * unlabeled).sum(dim=1)
    return -(positive / (positive + negative)).log().mean()
