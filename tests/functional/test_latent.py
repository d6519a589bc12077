"""The latent-class objective on logits, against a slow loop and by its identities."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import latent as reference
from torch import Tensor
from torch.nn.functional import cross_entropy

from bayescl import functional as F


def drawn(rows: int, columns: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positive = 2 * torch.rand(rows, generator=generator, dtype=torch.float64)
    unlabeled = 4 * torch.rand(rows, columns, generator=generator, dtype=torch.float64) - 2
    posterior = torch.rand(rows, columns, generator=generator, dtype=torch.float64)
    return positive.requires_grad_(), unlabeled.requires_grad_(), posterior


@pytest.mark.parametrize("attraction", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_values_and_gradients_equal_the_slow_loop(attraction: float, threshold: float) -> None:
    positive, unlabeled, posterior = drawn(5, 9)
    expected = torch.stack(
        [
            reference.latent(
                positive[i],
                list(unlabeled[i]),
                posterior[i].tolist(),
                attraction=attraction,
                threshold=threshold,
            )
            for i in range(5)
        ]
    )
    result = F.latent_loss(
        positive, unlabeled, posterior, attraction=attraction, threshold=threshold
    )
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
    for mine, slow in zip(
        torch.autograd.grad(result, (positive, unlabeled), upstream),
        torch.autograd.grad(expected, (positive, unlabeled), upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, slow, rtol=1e-10, atol=1e-10)


def test_gradients_of_first_and_second_order_are_right() -> None:
    positive, unlabeled, posterior = drawn(3, 6)
    for attraction in (0.0, 1.5):

        def loss(positive: Tensor, unlabeled: Tensor, attraction: float = attraction) -> Tensor:
            return F.latent_loss(positive, unlabeled, posterior, attraction=attraction)

        assert torch.autograd.gradcheck(loss, (positive, unlabeled))
        assert torch.autograd.gradgradcheck(loss, (positive, unlabeled))


def test_the_gradient_is_a_weighted_softmax_less_its_targets() -> None:
    positive, unlabeled, posterior = drawn(4, 7)
    result = F.latent_loss(positive, unlabeled, posterior, attraction=2.0)
    gradients = torch.autograd.grad(result.sum(), (positive, unlabeled))
    weights, pull = F.candidate_weights(posterior), 2 * F.attracting(posterior)
    logits = torch.cat([positive[:, None], unlabeled + weights.log()], dim=1)
    targets = torch.cat([torch.ones(4, 1, dtype=torch.float64), pull], dim=1)
    expected = logits.softmax(dim=1) - targets / targets.sum(dim=1, keepdim=True)
    torch.testing.assert_close(torch.cat([gradients[0][:, None], gradients[1]], dim=1), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_a_posterior_it_is_info_nce_bit_for_bit(dtype: torch.dtype) -> None:
    positive, unlabeled, posterior = (value.detach().to(dtype) for value in drawn(6, 11))
    values, gradients = [], []
    for loss in (
        lambda positive, unlabeled: F.latent_loss(positive, unlabeled, 0 * posterior),
        F.info_nce_loss,
    ):
        leaves = positive.clone().requires_grad_(), unlabeled.clone().requires_grad_()
        values.append(loss(*leaves))
        gradients.append(torch.autograd.grad(values[-1].sum(), leaves))
    assert torch.equal(*values)
    for mine, theirs in zip(*gradients, strict=True):
        assert torch.equal(mine, theirs)


def test_an_equal_posterior_weighs_like_none() -> None:
    positive, unlabeled, posterior = drawn(6, 11)
    same = torch.full_like(posterior, 0.4)
    torch.testing.assert_close(
        F.latent_loss(positive, unlabeled, same), F.info_nce_loss(positive, unlabeled)
    )


def test_labels_for_a_posterior_give_the_oracle_that_leaves_out() -> None:
    positive, unlabeled, posterior = drawn(5, 8)
    same = posterior < 0.4
    result = F.latent_loss(positive, unlabeled, same.double(), attraction=0.0)
    # Weights have mean 1: those left weigh as much together as all candidates did.
    scale = 8 / (~same).sum(dim=1, keepdim=True)
    expected = F.oracle_loss(positive, unlabeled + scale.log(), true_negative=~same)
    torch.testing.assert_close(result, expected)


def test_attraction_by_labels_is_a_cross_entropy_with_shared_targets() -> None:
    positive, unlabeled, _ = drawn(1, 4)
    same = torch.tensor([[1.0, 0.0, 0.0, 1.0]], dtype=torch.float64)
    logits = torch.cat([positive[:, None], unlabeled], dim=1)
    columns = torch.cat([logits[:, :1], logits[:, 2:4] + torch.tensor(2.0).log()], dim=1)
    total = columns.logsumexp(dim=1)
    expected = total - (logits[:, 0] + logits[:, 1] + logits[:, 4]) / 3
    torch.testing.assert_close(F.latent_loss(positive, unlabeled, same), expected)


def test_what_is_not_valid_changes_nothing_and_receives_nothing() -> None:
    positive, unlabeled, posterior = drawn(6, 9, seed=1)
    valid = torch.rand(6, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    valid[:, 0] = True
    result = F.latent_loss(positive, unlabeled, posterior, valid=valid)
    for i in range(6):
        kept = valid[i]
        alone = F.latent_loss(
            positive[i : i + 1], unlabeled[i : i + 1, kept], posterior[None, i, kept]
        )
        torch.testing.assert_close(result[i : i + 1], alone)
    gradient = torch.autograd.grad(result.sum(), unlabeled)[0]
    assert (gradient[~valid] == 0).all()


def test_a_row_without_candidates_costs_nothing() -> None:
    positive, unlabeled, posterior = drawn(2, 4)
    valid = torch.tensor([[False] * 4, [True] * 4])
    result = F.latent_loss(positive, unlabeled, posterior, valid=valid)
    gradients = torch.autograd.grad(result.sum(), (positive, unlabeled))
    assert result[0] == 0
    assert gradients[0][0] == 0
    assert (gradients[1][0] == 0).all()


def test_a_row_of_one_class_has_no_negatives() -> None:
    positive, unlabeled, posterior = drawn(2, 4)
    ones = torch.ones_like(posterior)
    assert (F.latent_loss(positive, unlabeled, ones, attraction=0.0) == 0).all()
    result = F.latent_loss(positive, unlabeled, ones)
    gap = positive - torch.cat([positive[:, None], unlabeled], dim=1).mean(dim=1)
    torch.testing.assert_close(result, gap)
    assert all(g.isfinite().all() for g in torch.autograd.grad(result.sum(), (positive, unlabeled)))


@settings(max_examples=40, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    positive=st.floats(-1e4, 1e4),
    columns=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_finite_at_extreme_logits(
    scale: float, positive: float, columns: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    anchor = torch.tensor([positive], requires_grad=True)
    unlabeled = (scale * torch.randn(1, columns, generator=generator)).requires_grad_()
    posterior = torch.randint(0, 5, (1, columns), generator=generator) / 4
    loss = F.latent_loss(anchor, unlabeled, posterior)
    assert loss.isfinite().all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss.sum(), (anchor, unlabeled)))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), attraction=st.floats(0, 3))
def test_the_order_of_candidates_does_not_matter(seed: int, attraction: float) -> None:
    positive, unlabeled, posterior = drawn(4, 12, seed)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close(
        F.latent_loss(positive, unlabeled, posterior, attraction=attraction),
        F.latent_loss(positive, unlabeled[:, order], posterior[:, order], attraction=attraction),
    )


def test_soft_targets_without_weights_are_the_cross_entropy_of_torch() -> None:
    # Posteriors of one half throughout leave all weights at 1 and make every target 1/2.
    positive, unlabeled, posterior = drawn(3, 5)
    half = torch.full_like(posterior, 0.5)
    logits = torch.cat([positive[:, None], unlabeled], dim=1)
    targets = torch.cat([torch.ones(3, 1, dtype=torch.float64), half], dim=1) / 3.5
    torch.testing.assert_close(
        F.latent_loss(positive, unlabeled, half, threshold=0.4),
        cross_entropy(logits, targets, reduction="none"),
    )


def test_weights_have_mean_one_over_the_valid_candidates() -> None:
    _, _, posterior = drawn(6, 9)
    valid = torch.rand(6, 9, generator=torch.Generator().manual_seed(2)) < 0.6
    weights = F.candidate_weights(posterior, valid=valid)
    torch.testing.assert_close(weights.sum(dim=1), valid.sum(dim=1).double())
    assert (weights[~valid] == 0).all()


def test_arguments_out_of_range_are_refused() -> None:
    positive, unlabeled, posterior = drawn(2, 3)
    with pytest.raises(ValueError, match="attraction must be at least 0, got -1"):
        F.latent_loss(positive, unlabeled, posterior, attraction=-1)
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\], got 2"):
        F.latent_loss(positive, unlabeled, posterior, threshold=2)
    with pytest.raises(ValueError, match=r"same_class must have shape \[2, 3\], got \[2, 2\]"):
        F.latent_loss(positive, unlabeled, posterior[:, :2])
