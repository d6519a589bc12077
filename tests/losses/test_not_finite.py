"""NaN in, NaN out: what is not finite never becomes a finite loss, in any loss or engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from cases import each
from torch import Tensor

import bayescl

MAKERS: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": bayescl.DebiasedContrastiveLoss,
    "debiased, no prior": lambda **k: bayescl.DebiasedContrastiveLoss(tau_plus=0.0, **k),
    "hard": bayescl.HardContrastiveLoss,
    "bayesian": bayescl.BayesianContrastiveLoss,
    "bayesian, histogram": lambda **k: bayescl.BayesianContrastiveLoss(ranks="histogram", **k),
    "own": lambda **k: bayescl.ContrastiveLoss(squares, **k),
}
names = each("name", list(MAKERS))
engines = each("engine", ["dense", "chunked"])
BAD = [float("nan"), float("inf"), -float("inf"), 3e38]


def squares(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
    kept = unlabeled if valid is None else unlabeled.masked_fill(~valid, 0.0)
    return (1 - positive).square() + kept.square().clamp(max=9.0).mean(dim=1)


def rows(count: int, seed: int) -> Tensor:
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))


@names
@engines
@each("bad", BAD)
@each("where", ["anchor", "candidate"])
def test_only_anchors_whose_logits_are_not_finite_get_nan(
    name: str, engine: str, bad: float, where: str
) -> None:
    anchors, positives, candidates = rows(6, 0), rows(6, 1), rows(9, 2)
    candidates[1] = candidates[0]  # a tie
    valid = torch.ones(6, 9, dtype=torch.bool)
    valid[:4, 3] = False  # for these it does not count, whatever it holds
    loss = MAKERS[name](engine=engine, chunk_size=4, normalize=False, reduction="none")
    finite = loss.sampled(anchors, positives, candidates, valid=valid)
    if where == "anchor":
        anchors[2] = bad
        expected = torch.arange(6) == 2
    else:
        candidates[3] = bad
        expected = torch.arange(6) >= 4
    anchors.requires_grad_()
    losses = loss.sampled(anchors, positives, candidates, valid=valid)
    assert losses.isnan().equal(expected)
    torch.testing.assert_close(losses[~expected], finite[~expected])
    (gradient,) = torch.autograd.grad(losses.sum(), anchors)
    assert gradient[expected].isnan().all()


def test_a_check_names_the_cause() -> None:
    huge = 1e30 * rows(5, 0)
    loss = bayescl.InfoNCELoss(normalize=False, check_finite=True)
    with pytest.raises(ValueError, match=r"logits must be finite, got .* for 10 of 10 anchors: co"):
        loss(huge, huge)
    with pytest.raises(ValueError, match="unlabeled must be finite, got 1 NaN"):
        loss.from_logits(torch.zeros(1), torch.tensor([[float("nan"), -float("inf")]]))
    assert loss.from_logits(torch.zeros(1), torch.tensor([[0.0, -float("inf")]])).isfinite()


def test_rows_too_small_to_have_a_direction_have_a_finite_gradient() -> None:
    view_1, view_2 = rows(4, 0), rows(4, 1)
    view_1[2] = 1e-41
    view_1.requires_grad_()
    bayescl.BayesianContrastiveLoss()(view_1, view_2).backward()
    assert view_1.grad is not None
    assert view_1.grad.isfinite().all()
