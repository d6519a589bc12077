"""Weights by exact rank in machine code against those that torch counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import bayescl
from bayescl._engine import sums
from bayescl._engine.sums import add_log_weights
from bayescl._ops.ranks import Ranks
from bayescl.batch import Excluded
from bayescl.losses.bayesian import Bayesian

numba = pytest.importorskip("numba", reason="needs Numba")


def hard_rows(width: int, generator: torch.Generator) -> Tensor:
    """Rows with ties, near neighbors and extreme ranges."""
    rows = torch.randn(10, width, generator=generator)
    rows[1] = rows[1].round(decimals=1)
    rows[2] = 0.25
    rows[3] = 2 + 1e-6 * rows[3]
    rows[4] *= 1e-40
    rows[5] *= 1e37
    rows[6] = rows[6].sign()
    rows[7, : width // 2] = rows[7, 0]
    rows[8, 0] = -1e6  # leaves the rest on few levels
    rows[9] = torch.tensor([-3e38, 3e38, 0.0])[torch.arange(width) % 3]
    return rows


def exclusions(width: int, generator: torch.Generator) -> Iterator[Excluded]:
    yield Excluded()
    drawn = torch.rand(10, width, generator=generator)
    yield Excluded(drawn.argsort(dim=1)[:, :2])
    mask = drawn < 0.2
    mask[0], mask[4] = True, False
    yield Excluded(mask=mask)
    yield Excluded(mask=mask.T.contiguous().T)  # as of a second direction


def weighted(objective: Bayesian, logits: Tensor, excluded: Excluded) -> Tensor:
    """Logits with the logarithms of their weights, by machine code."""
    result = logits.clone()
    assert add_log_weights(objective, result, excluded)
    return result


def mask_of(excluded: Excluded, logits: Tensor) -> Tensor:
    mask = torch.zeros_like(logits, dtype=torch.bool)
    if excluded.columns is not None:
        mask.scatter_(1, excluded.columns, True)
    return mask if excluded.mask is None else excluded.mask


@pytest.mark.parametrize("ranks", ["mid", "upper"])
@pytest.mark.parametrize("width", [2, 3, 64, 513, 1682, 5000, 40_000])
def test_machine_code_gives_the_weights_of_counted_ranks(width: int, ranks: Ranks) -> None:
    generator = torch.Generator().manual_seed(width)
    logits = hard_rows(width, generator)
    objective = Bayesian(0.9, 0.7, 0.1, ranks)
    for excluded in exclusions(width, generator):
        mask = mask_of(excluded, logits)
        by_rank = objective.log_weights(logits, valid=~mask).masked_fill(mask, -torch.inf)
        compiled = weighted(objective, logits, excluded)
        torch.testing.assert_close(compiled, logits + by_rank, rtol=1e-6, atol=1e-6)


def test_what_is_excluded_may_hold_anything() -> None:
    generator, objective = torch.Generator().manual_seed(0), Bayesian(0.9, 0.7, 0.1)
    logits = torch.randn(10, 700, generator=generator)
    for excluded in exclusions(700, generator):
        clean = weighted(objective, logits, excluded)
        for poison in (torch.nan, torch.inf, -torch.inf):
            work = logits.masked_fill(mask_of(excluded, logits), poison)
            assert torch.equal(weighted(objective, work, excluded), clean)


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_losses_and_gradients_are_the_same_with_and_without_numba(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(1)
    view_1, view_2 = torch.randn(2, 130, 16, generator=generator)
    valid = torch.rand(130, 130, generator=generator) < share
    loss = bayescl.BayesianContrastiveLoss(tau_plus=0.1, temperature=0.2, engine="blocked")

    def gradients() -> list[Tensor]:
        leaves = [view.clone().requires_grad_() for view in (view_1, view_2)]
        value = loss.in_batch(*leaves, valid=valid if share < 1 else None)
        return [value.detach(), *torch.autograd.grad(value, leaves)]

    compiled = gradients()
    monkeypatch.setattr(sums, "compiled_ranks", lambda: None)
    torch.testing.assert_close(compiled, gradients(), rtol=1e-5, atol=1e-7)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums.compiled_ranks() is not None
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    sums.compiled_ranks.cache_clear()
    try:
        assert sums.compiled_ranks() is None
    finally:
        sums.compiled_ranks.cache_clear()
