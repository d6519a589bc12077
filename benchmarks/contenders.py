"""The losses to compare, by their names in tables, and two that projects write by hand."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor
from torch.nn import functional as F

import bayescl
from bayescl.functional import importance_weights, proposal_cdf

Loss = Callable[[Tensor, Tensor], Tensor]

REFERENCE = "F.cross_entropy InfoNCE"
COMPARISON = "Bayesian by N x N comparison"
CUBIC_LIMIT = 300
"""Largest batch for the comparison, whose memory is cubic in it: some 70 GB at 1,024."""
SLOW_LIMIT = 128
"""Largest batch for pytorch-metric-learning's loss, which takes half a second there."""

TEMPERATURE = 0.5
CLASSES = 10
BAYESIAN = {"alpha": 0.9, "beta": 0.9, "temperature": TEMPERATURE}


def views_of_classes(batch: int, dim: int, seed: int) -> list[Tensor]:
    """Two views of items of ten classes."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(CLASSES, dim, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, CLASSES, (batch,), generator=generator)
    items = directions[labels] + 0.7 * torch.randn(batch, dim, generator=generator)
    return [items + 0.3 * torch.randn(batch, dim, generator=generator) for _ in range(2)]


def contenders(batch: int = 0) -> dict[str, Loss]:
    """Losses on two views, the reference first, without losses that do not fit the batch.

    Other libraries' losses are there where they are installed (``make bench`` does so).
    """
    losses: dict[str, Loss] = {
        REFERENCE: cross_entropy_info_nce,
        "InfoNCE": bayescl.InfoNCELoss(temperature=TEMPERATURE),
        "debiased": bayescl.DebiasedContrastiveLoss(temperature=TEMPERATURE),
        "hard": bayescl.HardContrastiveLoss(temperature=TEMPERATURE),
        "Bayesian": bayescl.BayesianContrastiveLoss(**BAYESIAN),
    }
    for name in (REFERENCE, "InfoNCE", "Bayesian"):
        losses[f"{name}, bf16 autocast"] = _in_bfloat16(losses[name])
    losses["Bayesian, dense engine"] = bayescl.BayesianContrastiveLoss(
        **BAYESIAN, engine="reference"
    )
    if find_spec("pytorch_metric_learning") and batch <= SLOW_LIMIT:
        losses["pytorch-metric-learning NTXentLoss"] = _metric_learning()
    if find_spec("lightly"):
        from lightly.loss import NTXentLoss

        losses["lightly NTXentLoss"] = NTXentLoss(temperature=TEMPERATURE)
    if batch <= CUBIC_LIMIT:
        losses[COMPARISON] = comparison_bayesian
    return losses


def _in_bfloat16(loss: Loss) -> Loss:
    """A loss of views that a network computed under autocast."""

    def of_views(view_1: Tensor, view_2: Tensor) -> Tensor:
        with torch.autocast(view_1.device.type, dtype=torch.bfloat16):
            return loss(view_1.bfloat16(), view_2.bfloat16())

    return of_views


def _metric_learning() -> Loss:
    from pytorch_metric_learning.losses import NTXentLoss

    loss = NTXentLoss(temperature=TEMPERATURE)
    return lambda *views: loss(torch.cat(views), torch.arange(len(views[0])).repeat(2))


def cross_entropy_info_nce(
    view_1: Tensor, view_2: Tensor, temperature: float = TEMPERATURE
) -> Tensor:
    """InfoNCE as most projects write it: mask the diagonal, then ``F.cross_entropy``."""
    rows = F.normalize(torch.cat([view_1, view_2]), dim=1)
    logits = rows @ rows.T / temperature
    own = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    target = torch.arange(len(rows), device=rows.device).roll(len(view_1))
    return F.cross_entropy(logits.masked_fill(own, -torch.inf), target)


def comparison_bayesian(view_1: Tensor, view_2: Tensor) -> Tensor:
    """The Bayesian loss with each anchor's ranks found by comparing all pairs of candidates.

    This is the cost of the published program: an anchors x N x N comparison.
    """
    rows = F.normalize(torch.cat([view_1, view_2]), dim=1)
    exponentials = (rows @ rows.T / TEMPERATURE).exp()
    index = torch.arange(len(rows))
    other = index.roll(len(view_1))
    keep = torch.ones(len(rows), len(rows), dtype=torch.bool)
    keep[index, index] = keep[index, other] = False
    positive = exponentials[index, other]
    unlabeled = exponentials[keep].view(len(rows), -1)
    with torch.no_grad():
        below = unlabeled[:, None, :] <= unlabeled[:, :, None]
        cdf = below.sum(dim=2) / unlabeled.shape[1]
        cdf = proposal_cdf(cdf, alpha=0.9, tau_plus=0.1)
        weights = importance_weights(cdf, alpha=0.9, beta=0.9, tau_plus=0.1)
    negative = (weights * unlabeled).sum(dim=1)
    return -(positive / (positive + negative)).log().mean()
