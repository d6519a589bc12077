"""Losses in the shape of lightly's: equal to its own, with and without a memory bank."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from ranks import launch

import bayescl
from bayescl.integrations import lightly as ours

DIM = 5


@pytest.fixture(scope="module")
def theirs():
    return pytest.importorskip("lightly.loss", reason="needs lightly")


def views(batch: int, seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, DIM, generator=generator).requires_grad_() for _ in range(2)]


def assert_same_step(mine, reference, batch: int, seed: int) -> None:
    inputs, copies = views(batch, seed), views(batch, seed)
    value, expected = mine(*inputs), reference(*copies)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)
    value.backward()
    expected.backward()
    for found, wanted in zip(inputs, copies, strict=True):
        torch.testing.assert_close(found.grad, wanted.grad, rtol=0, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("batch", [2, 7])
def test_info_nce_without_a_bank_is_theirs(theirs, temperature: float, batch: int) -> None:
    assert_same_step(ours.NTXentLoss(temperature), theirs.NTXentLoss(temperature), batch, seed=0)


def test_info_nce_with_a_filled_bank_is_theirs_step_by_step(theirs) -> None:
    mine, reference = (made(0.2, (6, DIM)) for made in (ours.NTXentLoss, theirs.NTXentLoss))
    for seed in range(2):  # both banks hold the same rows from here on
        mine(*views(3, seed)), reference(*views(3, seed))
    for seed in range(2, 7):
        assert_same_step(mine, reference, batch=3, seed=seed)


def test_a_bank_starts_empty_and_the_first_step_contrasts_within_the_batch() -> None:
    criterion = ours.NTXentLoss(0.5, (4, 3))
    first, second = torch.eye(3).requires_grad_(), torch.eye(3)
    value = criterion(first, second)
    assert value.item() == pytest.approx(math.log(1 + 2 * math.exp(-2)), abs=1e-6)
    assert criterion.memory_bank.filled == 3
    with torch.no_grad():
        criterion(torch.eye(3), torch.eye(3))
    assert criterion.memory_bank.filled == 3, "without gradients the bank stays as it is"


def test_a_bank_travels_in_the_state_dict() -> None:
    criterion, other = (ours.BayesianNTXentLoss(0.5, (6, DIM)) for _ in range(2))
    criterion(*views(3, 0))
    other.load_state_dict(criterion.state_dict())
    assert criterion(*views(3, 1)) == other(*views(3, 1))


@pytest.mark.parametrize("bank", [0, (6, DIM)])
def test_latent_classes_are_info_nce_until_they_are_found(bank) -> None:
    mine, reference = ours.LatentClassNTXentLoss(0.5, bank), ours.NTXentLoss(0.5, bank)
    for seed in range(3):
        torch.testing.assert_close(mine(*views(3, seed)), reference(*views(3, seed)))
    assert mine.loss.memory.state_dict(), "what it remembers is part of the state"


def test_labels_of_some_images_reach_the_loss_and_stay_in_its_bank() -> None:
    labels = torch.tensor([0, 0, -1])
    options = {"tau_plus": 0.3, "memory_size": 20, "refit_every": 1, "aim": "both"}
    mine, direct = ours.LatentClassNTXentLoss(0.5, **options), losses_of(options)
    banked, by_hand = ours.LatentClassNTXentLoss(0.5, (6, DIM), **options), losses_of(options)
    for seed in range(3):
        torch.testing.assert_close(
            mine(*views(3, seed), labels=labels), direct(*views(3, seed), labels=labels)
        )
    banked(*views(3, 0))  # without labels, its rows are of unknown class
    banked(*views(3, 1), labels=labels)
    assert banked.memory_bank.groups.tolist() == [-1, -1, -1, 0, 0, -1]
    stored = banked.memory_bank.candidates
    by_hand.load_state_dict(banked.loss.state_dict())
    torch.testing.assert_close(
        banked(*views(3, 2), labels=labels),
        by_hand.sampled(
            *views(3, 2),
            stored,
            labels=labels,
            candidate_labels=torch.tensor([-1] * 3 + [0, 0, -1]),
        ),
    )
    with pytest.raises(ValueError, match="labels must be None"):
        ours.NTXentLoss()(*views(3, 0), labels=labels)


def losses_of(options: dict) -> bayescl.LatentClassContrastiveLoss:
    return bayescl.LatentClassContrastiveLoss(temperature=0.5, **options)


@pytest.mark.parametrize("made", [ours.DebiasedNTXentLoss, ours.HardNTXentLoss])
@pytest.mark.parametrize("bank", [0, (6, DIM)])
def test_losses_without_false_negatives_are_info_nce(made, bank) -> None:
    options = {"concentration": 0.0} if made is ours.HardNTXentLoss else {}
    mine, reference = made(0.5, bank, tau_plus=0.0, **options), ours.NTXentLoss(0.5, bank)
    for seed in range(3):
        torch.testing.assert_close(mine(*views(3, seed)), reference(*views(3, seed)))


def test_the_bayesian_loss_takes_its_own_arguments() -> None:
    uniform = ours.BayesianNTXentLoss(0.5, alpha=0.5, beta=0.5)
    torch.testing.assert_close(uniform(*views(4, 0)), ours.NTXentLoss(0.5)(*views(4, 0)))
    default = ours.BayesianNTXentLoss(0.5)
    assert not torch.isclose(default(*views(4, 0)), ours.NTXentLoss(0.5)(*views(4, 0)))


def test_gathering_does_nothing_in_a_single_process() -> None:
    for bank in (0, (6, DIM)):
        alone, gathering = (ours.NTXentLoss(0.5, bank, gather) for gather in (False, True))
        for seed in range(2):
            assert alone(*views(3, seed)) == gathering(*views(3, seed))


@pytest.mark.parametrize("size", [16, -1, (4,), (4, 5, 6), (-1, 3)])
def test_a_size_that_says_too_little_is_refused(size) -> None:
    with pytest.raises(ValueError, match="memory_bank_size"):
        ours.NTXentLoss(memory_bank_size=size)


@pytest.mark.distributed
@pytest.mark.filterwarnings("default")
def test_two_processes_are_two_processes_of_theirs(theirs, tmp_path_factory) -> None:
    from integrations import lightly_ranks

    ranks = launch.run(lightly_ranks.on_a_rank, 2, seconds=300)
    for bank in (0, (2 * lightly_ranks.BATCH, lightly_ranks.DIM)):
        start = 0 if bank == 0 else 1  # their bank is random in the first step
        for rank in ranks:
            steps = zip(rank[f"ours, {bank}"], rank[f"theirs, {bank}"], strict=True)
            for mine, reference in list(steps)[start:]:
                assert mine[0] == pytest.approx(reference[0], rel=1e-6)
                for found, wanted in zip(mine[1:], reference[1:], strict=True):
                    torch.testing.assert_close(
                        torch.tensor(found), torch.tensor(wanted), rtol=0, atol=1e-5
                    )


@pytest.mark.filterwarnings("default")
def test_the_example_trains_with_their_line_and_with_ours(theirs, tmp_path: Path) -> None:
    from integrations import examples

    before, after = examples.both_ways("lightly.md", "lightly_simclr.py", tmp_path)
    assert isinstance(before["criterion"], theirs.NTXentLoss)
    assert isinstance(after["criterion"], ours.BayesianNTXentLoss)
    assert math.isfinite(after["loss"].item())
