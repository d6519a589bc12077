"""Losses on embeddings against slow loops and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from reference import layouts
from reference import objectives as reference
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

import bayescl

TEMPERATURE = 0.5
BAYESIAN = {"alpha": 0.9, "beta": 0.7, "tau_plus": 0.1}
Row = Callable[[Tensor, list[Tensor]], Tensor]

LOSSES: dict[str, tuple[Callable[..., bayescl.ContrastiveLoss], Row]] = {
    "info_nce": (bayescl.InfoNCELoss, reference.info_nce),
    "debiased": (
        partial(bayescl.DebiasedContrastiveLoss, tau_plus=0.1),
        partial(reference.debiased, tau_plus=0.1, minimum_logit=-1 / TEMPERATURE),
    ),
    "hard": (
        partial(bayescl.HardContrastiveLoss, tau_plus=0.1, concentration=0.5),
        partial(reference.hard, tau_plus=0.1, concentration=0.5, minimum_logit=-1 / TEMPERATURE),
    ),
    "bayesian": (
        partial(bayescl.BayesianContrastiveLoss, **BAYESIAN),
        partial(reference.bayesian, **BAYESIAN),
    ),
    "bayesian, upper": (
        partial(bayescl.BayesianContrastiveLoss, **BAYESIAN, ranks="upper"),
        partial(reference.bayesian, **BAYESIAN, ranks="upper"),
    ),
}
names = pytest.mark.parametrize("name", list(LOSSES))


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, dim, dtype=torch.float64, generator=generator)
    return drawn.requires_grad_()


def assert_same(result: Tensor, expected: Tensor, inputs: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-10)
    generator = torch.Generator().manual_seed(11)
    upstream = torch.rand(result.shape, dtype=torch.float64, generator=generator)
    mine = torch.autograd.grad(result, inputs, upstream)
    slow = torch.autograd.grad(expected, inputs, upstream)
    for ours, theirs in zip(mine, slow, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


@names
@pytest.mark.parametrize("batch", [2, 3, 7])
def test_two_views_equal_the_slow_loop(name: str, batch: int) -> None:
    make, row = LOSSES[name]
    view_1, view_2 = rows(batch, 0), rows(batch, 1)
    result = make(temperature=TEMPERATURE, reduction="none")(view_1, view_2)
    expected = layouts.two_views(view_1, view_2, row, TEMPERATURE)
    assert_same(result, expected, (view_1, view_2))


@names
def test_groups_take_pairs_out_of_two_views(name: str) -> None:
    make, row = LOSSES[name]
    view_1, view_2, groups = rows(5, 0), rows(5, 1), [0, 1, 1, 2, 2]
    result = make(temperature=TEMPERATURE, reduction="none")(
        view_1, view_2, groups=torch.tensor(groups)
    )
    expected = layouts.two_views(view_1, view_2, row, TEMPERATURE, groups)
    assert_same(result, expected, (view_1, view_2))


@names
def test_in_batch_equals_the_slow_loop(name: str) -> None:
    make, row = LOSSES[name]
    users, items, extra = rows(5, 0), rows(5, 1), rows(4, 2)
    valid = torch.rand(5, 9, generator=torch.Generator().manual_seed(3)) < 0.7
    result = make(temperature=TEMPERATURE, reduction="none").in_batch(
        users, items, extra=extra, valid=valid
    )
    expected = layouts.pairs(users, items, row, TEMPERATURE, extra, valid)
    assert_same(result, expected, (users, items, extra))


@names
def test_both_directions_follow_one_another(name: str) -> None:
    make, row = LOSSES[name]
    queries, documents, extra = rows(4, 0), rows(4, 1), rows(3, 2)
    loss = make(temperature=TEMPERATURE, reduction="none")
    result = loss.in_batch(queries, documents, extra=extra, both_directions=True)
    expected = torch.cat(
        [
            layouts.pairs(queries, documents, row, TEMPERATURE, extra),
            layouts.pairs(documents, queries, row, TEMPERATURE),
        ]
    )
    assert_same(result, expected, (queries, documents, extra))


@names
def test_a_mask_turns_with_the_direction(name: str) -> None:
    make, row = LOSSES[name]
    queries, documents = rows(5, 0), rows(5, 1)
    valid = torch.rand(5, 5, generator=torch.Generator().manual_seed(4)) < 0.7
    loss = make(temperature=TEMPERATURE, reduction="none")
    result = loss.in_batch(queries, documents, valid=valid, both_directions=True)
    expected = torch.cat(
        [
            layouts.pairs(queries, documents, row, TEMPERATURE, valid=valid),
            layouts.pairs(documents, queries, row, TEMPERATURE, valid=valid.T),
        ]
    )
    assert_same(result, expected, (queries, documents))


@names
def test_sampled_candidates_equal_the_slow_loop(name: str) -> None:
    make, row = LOSSES[name]
    users, items = rows(3, 0), rows(3, 1)
    own = rows(12, 2).reshape(3, 4, 6)
    shared = rows(4, 3)
    loss = make(temperature=TEMPERATURE, reduction="none")

    def expected(candidates: Tensor) -> Tensor:
        def one(i: int) -> Tensor:
            mine = candidates[i] if candidates.ndim == 3 else candidates
            scored = [layouts.cosine(users[i], other) / TEMPERATURE for other in mine]
            return row(layouts.cosine(users[i], items[i]) / TEMPERATURE, scored)

        return torch.stack([one(i) for i in range(3)])

    assert_same(loss.sampled(users, items, own), expected(own), (users, items, own))
    assert_same(loss.sampled(users, items, shared), expected(shared), (users, items, shared))


@names
def test_from_logits_takes_logits_as_they_are(name: str) -> None:
    make, row = LOSSES[name]
    positive, unlabeled = rows(3, 0, dim=1).squeeze(1), rows(3, 1)
    result = make(temperature=TEMPERATURE, reduction="none").from_logits(positive, unlabeled)
    expected = torch.stack([row(positive[i], list(unlabeled[i])) for i in range(3)])
    assert_same(result, expected, (positive, unlabeled))


@names
@pytest.mark.parametrize("seed", range(3))
def test_gradients_through_embeddings_are_right_to_second_order(name: str, seed: int) -> None:
    make, _ = LOSSES[name]
    loss = make(temperature=TEMPERATURE)
    inputs = (rows(3, 10 + seed, dim=3), rows(3, 20 + seed, dim=3))
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


def test_info_nce_equals_cross_entropy_in_every_layout() -> None:
    view_1, view_2 = rows(6, 0), rows(6, 1)
    loss = bayescl.InfoNCELoss(temperature=0.1)
    both = normalize(torch.cat([view_1, view_2]), dim=1)
    own = torch.eye(12, dtype=torch.bool)
    logits = (both @ both.T / 0.1).masked_fill(own, -torch.inf)
    target = torch.arange(12).roll(6)
    torch.testing.assert_close(loss(view_1, view_2), cross_entropy(logits, target))

    logits = normalize(view_1, dim=1) @ normalize(view_2, dim=1).T / 0.1
    torch.testing.assert_close(
        loss.in_batch(view_1, view_2), cross_entropy(logits, torch.arange(6))
    )
    both_ways = cross_entropy(logits, torch.arange(6)) + cross_entropy(logits.T, torch.arange(6))
    torch.testing.assert_close(loss.in_batch(view_1, view_2, both_directions=True), both_ways / 2)


@pytest.mark.parametrize(("alpha", "beta", "tau_plus"), [(0.9, 0.9, 0.1), (0.7, 1.0, 0.01)])
def test_the_authors_arithmetic_differs_by_their_epsilon_alone(
    alpha: float, beta: float, tau_plus: float
) -> None:
    view_1, view_2 = rows(8, 0), rows(8, 1)
    parameters = {"alpha": alpha, "beta": beta, "tau_plus": tau_plus}
    loss = bayescl.BayesianContrastiveLoss(**parameters, ranks="upper", reduction="none")
    ours = loss(view_1, view_2)

    def theirs(epsilon: float) -> Tensor:
        row = partial(reference.bayesian, **parameters, ranks="upper", epsilon=epsilon)
        return layouts.two_views(view_1, view_2, row, 0.5)

    with_epsilon = (theirs(1e-3) - ours).abs().max()
    assert 1e-5 < with_epsilon < 0.02
    torch.testing.assert_close(theirs(0.0), ours, rtol=1e-10, atol=0)
    assert (theirs(1e-6) - ours).abs().max() < 2e-3 * with_epsilon


def test_oracle_equals_info_nce_on_true_negatives() -> None:
    view_1, view_2, labels = rows(6, 0), rows(6, 1), torch.tensor([0, 0, 1, 1, 2, 3])
    oracle = bayescl.OracleContrastiveLoss(reduction="none")
    expected = layouts.two_views(view_1, view_2, reference.info_nce, 0.5, labels.tolist())
    assert_same(oracle(view_1, view_2, groups=labels), expected, (view_1, view_2))
    torch.testing.assert_close(
        oracle.in_batch(view_1, view_2, groups=labels),
        bayescl.InfoNCELoss(reduction="none").in_batch(view_1, view_2, groups=labels),
    )
