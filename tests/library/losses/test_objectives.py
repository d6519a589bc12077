"""Objectives on logits, against slow loops and by their identities."""

from itertools import product

import pytest
import torch
from reference import objectives as reference
from torch import Tensor

from bayescl import functional as F

FLOOR = -2.0
OBJECTIVES = {name: row.on_logits(FLOOR) for name, row in reference.WEIGHTINGS.items()}
names = pytest.mark.parametrize("name", list(OBJECTIVES))


def drawn(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positive = 2 * torch.rand(rows, generator=generator, dtype=torch.float64)
    unlabeled = 4 * torch.rand(rows, columns, generator=generator, dtype=torch.float64) - 2
    return positive.requires_grad_(), unlabeled.requires_grad_()


@names
@pytest.mark.parametrize(
    ("rows", "columns", "share"), [(1, 1, 1.0), (2, 3, 1.0), (5, 16, 1.0), (6, 9, 0.6)]
)
def test_values_equal_the_slow_loop(name, rows, columns, share):
    ours, theirs = OBJECTIVES[name]
    positive, unlabeled = drawn(rows, columns)
    valid = torch.rand(rows, columns, generator=torch.Generator().manual_seed(2)) < share
    valid[:, 0] = True
    kept = [list(unlabeled[i][valid[i]]) for i in range(rows)]
    expected = torch.stack([theirs(positive[i], kept[i]) for i in range(rows)])
    result = ours(positive, unlabeled, valid=None if share == 1 else valid)
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-10)
    turned = ours(positive, unlabeled.flip(1), valid=valid.flip(1))
    torch.testing.assert_close(turned, result, rtol=1e-13, atol=0)


@names
def test_gradients_of_first_and_second_order_are_right(name):
    inputs = drawn(3, 6, seed=5)
    assert torch.autograd.gradcheck(OBJECTIVES[name][0], inputs)
    assert torch.autograd.gradgradcheck(OBJECTIVES[name][0], inputs)


@names
def test_a_row_without_candidates_costs_nothing(name):
    ours, _ = OBJECTIVES[name]
    positive, unlabeled = drawn(2, 4)
    valid = torch.tensor([[False] * 4, [True] * 4])
    result = ours(positive, unlabeled, valid=valid)
    gradients = torch.autograd.grad(result.sum(), (positive, unlabeled), create_graph=True)
    assert result[0] == 0
    assert gradients[0][0] == 0
    assert (gradients[1][0] == 0).all()
    of_gradient = gradients[1].square().sum()
    second = torch.autograd.grad(of_gradient, (positive, unlabeled), allow_unused=True)
    assert all(gradient is None or gradient.isfinite().all() for gradient in second)
    for mask in (None, valid[:1, :0]):  # nor does one without a column
        torch.testing.assert_close(ours(positive[:1], unlabeled[:1, :0], valid=mask), result[:1])


def test_bayesian_is_info_nce_at_one_half_and_debiased_is_hard_without_concentration():
    positive, unlabeled = drawn(7, 13)
    plain = F.info_nce_loss(positive, unlabeled)
    for tau_plus, ranks in product((0.0, 0.1, 0.7), ("mid", "upper")):
        guess = {"alpha": 0.5, "beta": 0.5, "tau_plus": tau_plus, "ranks": ranks}
        loss = F.bayesian_loss(positive, unlabeled, **guess)
        torch.testing.assert_close(loss, plain, rtol=1e-13, atol=0)
    debiased = F.debiased_loss(positive, unlabeled, tau_plus=0.1, minimum_logit=FLOOR)
    hard = F.hard_loss(positive, unlabeled, tau_plus=0.1, concentration=0.0, minimum_logit=FLOOR)
    nearly = F.hard_loss(positive, unlabeled, tau_plus=0.1, concentration=1e-9, minimum_logit=FLOOR)
    assert torch.equal(debiased, hard)
    torch.testing.assert_close(debiased, nearly, rtol=1e-7, atol=0)
    undone = F.debiased_loss(positive, unlabeled, tau_plus=0.0, minimum_logit=FLOOR)
    torch.testing.assert_close(undone, plain)


def test_small_losses_keep_their_precision():
    # e^-30 would vanish against 1 in float32 if the loss were formed by subtraction.
    loss = F.info_nce_loss(torch.tensor([30.0]), torch.tensor([[0.0]]))
    assert loss.item() == pytest.approx(9.357623e-14, rel=1e-5)
