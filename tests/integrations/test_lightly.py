"""Losses in the shape of lightly's: equal to its own."""

from __future__ import annotations

import pytest
import torch

import bayescl
from bayescl.integrations import lightly as ours
from integrations.on_ranks import assert_same, rows, stepped

BAYESIAN = bayescl.BayesianContrastiveLoss


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("lightly.loss", reason="needs lightly")


def views(batch: int, seed: int) -> list[torch.Tensor]:
    return [rows(batch, 2 * seed + view).requires_grad_() for view in (0, 1)]


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("batch", [2, 7])
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


def test_a_teacher_is_the_third_input_and_needs_a_share_of_the_target(theirs) -> None:
    plain = rows(7, 9)
    for loss in (bayescl.InfoNCELoss, BAYESIAN):
        mine = ours.NTXentLoss(0.3, loss=loss, positive_share=0.2)
        direct = loss(temperature=0.3, positive_share=0.2)
        wanted = stepped(direct, views(7, 0), teacher=plain)
        assert_same(stepped(mine, views(7, 0), plain), wanted)
        assert_same(stepped(mine, views(7, 0), teacher=plain), wanted)
    untaught = stepped(theirs.NTXentLoss(0.3), views(7, 0))
    assert_same(stepped(ours.NTXentLoss(0.3, positive_share=1), views(7, 0), plain), untaught)


def test_a_memory_bank_is_refused() -> None:
    with pytest.raises(ValueError, match="memory_bank_size must be 0, got 16"):
        ours.NTXentLoss(memory_bank_size=16)
