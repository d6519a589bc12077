"""Losses in the shape of lightly's: equal to its own, with and without a memory bank."""

from __future__ import annotations

import math

import pytest
import torch
from cases import each

import bayescl
from bayescl.integrations import lightly as ours
from integrations.on_ranks import DIM, assert_same, rows, stepped

BAYESIAN = bayescl.BayesianContrastiveLoss


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("lightly.loss", reason="needs lightly")


def views(batch: int, seed: int) -> list[torch.Tensor]:
    return [rows(batch, 2 * seed + view).requires_grad_() for view in (0, 1)]


@each("temperature", [0.07, 0.5])
@each("batch", [2, 7])
def test_info_nce_without_a_bank_is_theirs(theirs, temperature: float, batch: int) -> None:
    mine, reference = (made(temperature) for made in (ours.NTXentLoss, theirs.NTXentLoss))
    assert_same(stepped(mine, views(batch, 0)), stepped(reference, views(batch, 0)))


def test_info_nce_with_a_filled_bank_is_theirs_step_by_step(theirs) -> None:
    mine, reference = (made(0.2, (6, DIM)) for made in (ours.NTXentLoss, theirs.NTXentLoss))
    for seed in range(7):
        found, wanted = (stepped(loss, views(3, seed)) for loss in (mine, reference))
        if seed >= 2:  # both banks hold the same rows from here on
            assert_same(found, wanted)


def test_a_bank_starts_empty_and_the_first_step_contrasts_within_the_batch() -> None:
    criterion = ours.NTXentLoss(0.5, (4, 3))
    value = criterion(torch.eye(3).requires_grad_(), torch.eye(3))
    assert value.item() == pytest.approx(math.log(1 + 2 * math.exp(-2)), abs=1e-6)
    assert criterion.memory_bank.filled == 3
    with torch.no_grad():
        criterion(torch.eye(3), torch.eye(3))
    assert criterion.memory_bank.filled == 3, "without gradients the bank stays as it is"


def test_a_bank_travels_in_the_state_dict() -> None:
    criterion, other = (ours.NTXentLoss(0.5, (6, DIM), loss=BAYESIAN) for _ in range(2))
    criterion(*views(3, 0))
    other.load_state_dict(criterion.state_dict())
    assert criterion(*views(3, 1)) == other(*views(3, 1))


@each("bank", [0, (6, DIM)])
def test_losses_that_correct_nothing_are_info_nce(bank) -> None:
    for options in (
        {"loss": bayescl.DebiasedContrastiveLoss, "tau_plus": 0.0},
        {"loss": bayescl.HardContrastiveLoss, "tau_plus": 0.0, "concentration": 0.0},
        {"loss": BAYESIAN, "alpha": 0.5, "beta": 0.5},
        {"loss": bayescl.LatentClassContrastiveLoss},  # nothing is found yet
        {"gather_distributed": True},  # in a single process
    ):
        mine, reference = (ours.NTXentLoss(0.5, bank, **each) for each in (options, {}))
        for seed in range(3):
            torch.testing.assert_close(mine(*views(3, seed)), reference(*views(3, seed)))
    default = ours.NTXentLoss(0.5, loss=BAYESIAN)(*views(3, 2))
    assert not torch.isclose(default, ours.NTXentLoss(0.5)(*views(3, 2)))


def test_labels_of_some_images_reach_the_loss_and_stay_in_its_bank() -> None:
    labels = torch.tensor([0, 0, -1])
    options = {"tau_plus": 0.3, "memory_size": 20, "refit_every": 1, "aim": "pairs"}
    mine, banked = (
        ours.NTXentLoss(0.5, bank, loss=bayescl.LatentClassContrastiveLoss, **options)
        for bank in (0, (6, DIM))
    )
    direct, by_hand = (
        bayescl.LatentClassContrastiveLoss(temperature=0.5, **options) for _ in range(2)
    )
    for seed in range(3):
        values = (loss(*views(3, seed), labels=labels) for loss in (mine, direct))
        torch.testing.assert_close(*values)
    banked(*views(3, 0))  # without labels, its rows are of unknown class
    banked(*views(3, 1), labels=labels)
    stored = torch.tensor([-1, -1, -1, 0, 0, -1])
    assert torch.equal(banked.memory_bank.groups, stored)
    rows_of_bank, known = banked.memory_bank.candidates, {"candidate_labels": stored}
    by_hand.load_state_dict(banked.loss.state_dict())
    wanted = by_hand.sampled(*views(3, 2), rows_of_bank, labels=labels, **known)
    torch.testing.assert_close(banked(*views(3, 2), labels=labels), wanted)
    with pytest.raises(ValueError, match="labels must be None"):
        ours.NTXentLoss()(*views(3, 0), labels=labels)


def test_a_size_that_says_too_little_is_refused() -> None:
    for size in (16, -1, (4,), (4, 5, 6), (-1, 3)):
        with pytest.raises(ValueError, match="memory_bank_size"):
            ours.NTXentLoss(memory_bank_size=size)
