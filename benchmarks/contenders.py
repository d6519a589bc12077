"""The losses to compare, by their names in tables."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import torch
from baselines import comparison_bayesian, cross_entropy_info_nce

import bayescl

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

REFERENCE = "F.cross_entropy InfoNCE"
COMPARISON = "Bayesian by N x N comparison"
CUBIC_LIMIT = 300
"""Largest batch for the comparison, whose memory is cubic in it: some 70 GB at 1,024."""
SLOW_LIMIT = 128
"""Largest batch for pytorch-metric-learning's loss, which takes half a second there and four
seconds at 256."""

TEMPERATURE = 0.5
CLASSES = 10
BAYESIAN = {"alpha": 0.9, "beta": 0.9, "temperature": TEMPERATURE}


def views_of_classes(batch: int, dim: int, seed: int) -> list[torch.Tensor]:
    """Two views of items of ten classes, so that the latent-class loss has classes to find."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(CLASSES, dim, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, CLASSES, (batch,), generator=generator)
    items = directions[labels] + 0.7 * torch.randn(batch, dim, generator=generator)
    return [items + 0.3 * torch.randn(batch, dim, generator=generator) for _ in range(2)]


_BY_CLASSES = 256
"""The batch at which the latent-class loss is also told other numbers of classes."""


def contenders(batch: int = 0) -> dict[str, Loss]:
    """Losses on two views, the reference first; those that do not fit the batch are left out.

    Other libraries' losses are there where they are installed (``make bench`` does so).
    """
    found: dict[str, Loss] = {
        REFERENCE: cross_entropy_info_nce,
        "InfoNCE": bayescl.InfoNCELoss(temperature=TEMPERATURE),
        "debiased": bayescl.DebiasedContrastiveLoss(temperature=TEMPERATURE),
        "hard": bayescl.HardContrastiveLoss(temperature=TEMPERATURE),
        "Bayesian": bayescl.BayesianContrastiveLoss(**BAYESIAN),
        "latent classes": bayescl.LatentClassContrastiveLoss(
            num_classes=CLASSES, temperature=TEMPERATURE
        ),
        f"{REFERENCE}, bf16 autocast": _in_bfloat16(cross_entropy_info_nce),
        "InfoNCE, bf16 autocast": _in_bfloat16(bayescl.InfoNCELoss(temperature=TEMPERATURE)),
        "Bayesian, bf16 autocast": _in_bfloat16(bayescl.BayesianContrastiveLoss(**BAYESIAN)),
        "latent classes, bf16 autocast": _in_bfloat16(
            bayescl.LatentClassContrastiveLoss(num_classes=CLASSES, temperature=TEMPERATURE)
        ),
        "Bayesian, dense engine": bayescl.BayesianContrastiveLoss(**BAYESIAN, engine="dense"),
    }
    if batch == _BY_CLASSES:
        for count in (100, 1000, 10000):
            found[f"latent classes, {count:,} of them"] = bayescl.LatentClassContrastiveLoss(
                num_classes=count, temperature=TEMPERATURE
            )
    if find_spec("pytorch_metric_learning") and batch <= SLOW_LIMIT:
        found["pytorch-metric-learning NTXentLoss"] = _metric_learning()
    if find_spec("lightly"):
        from lightly.loss import NTXentLoss

        found["lightly NTXentLoss"] = NTXentLoss(temperature=TEMPERATURE)
    if batch <= CUBIC_LIMIT:
        found[COMPARISON] = comparison_bayesian
    return found


def _in_bfloat16(loss: Loss) -> Loss:
    """A loss of views that a network computed under autocast."""

    def of_views(view_1: torch.Tensor, view_2: torch.Tensor) -> torch.Tensor:
        with torch.autocast(view_1.device.type, dtype=torch.bfloat16):
            return loss(view_1.bfloat16(), view_2.bfloat16())

    return of_views


def _metric_learning() -> Loss:
    from pytorch_metric_learning.losses import NTXentLoss

    loss = NTXentLoss(temperature=TEMPERATURE)

    def of_views(view_1: torch.Tensor, view_2: torch.Tensor) -> torch.Tensor:
        item = torch.arange(len(view_1)).repeat(2)
        return loss(torch.cat([view_1, view_2]), item)

    return of_views
