"""Losses in the shape of lightly's: equal to its own."""

from __future__ import annotations

import pytest
import torch
from cases import each

import bayescl
from bayescl.integrations import lightly as ours
from integrations.on_ranks import assert_same, rows, stepped

BAYESIAN = bayescl.BayesianContrastiveLoss


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("lightly.loss", reason="needs lightly")


def views(batch: int, seed: int) -> list[torch.Tensor]:
    return [rows(batch, 2 * seed + view).requires_grad_() for view in (0, 1)]


@each("temperature", [0.07, 0.5])
@each("batch", [2, 7])
def test_info_nce_is_theirs(theirs, temperature: float, batch: int) -> None:
    mine, reference = (made(temperature) for made in (ours.NTXentLoss, theirs.NTXentLoss))
    assert_same(stepped(mine, views(batch, 0)), stepped(reference, views(batch, 0)))


def test_losses_that_correct_nothing_are_info_nce() -> None:
    for options in (
        {"loss": bayescl.DebiasedContrastiveLoss, "tau_plus": 0.0},
        {"loss": bayescl.HardContrastiveLoss, "tau_plus": 0.0, "concentration": 0.0},
        {"loss": BAYESIAN, "alpha": 0.5, "beta": 0.5},
        {"gather_distributed": True},  # in a single process
    ):
        mine, reference = (ours.NTXentLoss(0.5, **each) for each in (options, {}))
        for seed in range(3):
            torch.testing.assert_close(mine(*views(3, seed)), reference(*views(3, seed)))
    default = ours.NTXentLoss(0.5, loss=BAYESIAN)(*views(3, 2))
    assert not torch.isclose(default, ours.NTXentLoss(0.5)(*views(3, 2)))


def test_a_memory_bank_is_refused() -> None:
    with pytest.raises(ValueError, match="memory_bank_size must be 0, got 16"):
        ours.NTXentLoss(memory_bank_size=16)
