"""Losses on embeddings against slow loops and against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from cases import each
from reference import layouts
from reference import objectives as reference
from torch import Tensor

import bayescl

TEMPERATURE = 0.5
Row = Callable[[Tensor, list[Tensor]], Tensor]

LOSSES = {
    name: (row.made, row.on_logits(-1 / TEMPERATURE)[1])
    for name, row in reference.WEIGHTINGS.items()
}
names = each("name", list(LOSSES))


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


def candidates_loop(row: Row, users: Tensor, items: Tensor, candidates: Tensor) -> Tensor:
    def one(i: int) -> Tensor:
        mine = candidates[i] if candidates.ndim == 3 else candidates
        scored = [layouts.cosine(users[i], other) / TEMPERATURE for other in mine]
        return row(layouts.cosine(users[i], items[i]) / TEMPERATURE, scored)

    return torch.stack([one(i) for i in range(len(users))])


def both_ways(row: Row, one: Tensor, other: Tensor, extra: Tensor | None, valid: Tensor | None):
    there = layouts.pairs(one, other, row, TEMPERATURE, extra, valid)
    back = layouts.pairs(other, one, row, TEMPERATURE, valid=None if valid is None else valid.T)
    return torch.cat([there, back])


def mask(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.7


GROUPS, MASK, SQUARE = [0, 1, 1, 2, 2], mask(5, 9), mask(5, 5)
LAYOUTS: dict[str, tuple[tuple[Tensor, ...], Callable[..., Tensor], Callable[..., Tensor]]] = {
    **{
        f"two views of {batch}": (
            (rows(batch, 0), rows(batch, 1)),
            lambda loss, x, y: loss(x, y),
            lambda row, x, y: layouts.two_views(x, y, row, TEMPERATURE),
        )
        for batch in (2, 3, 7)
    },
    "groups": (
        (rows(5, 0), rows(5, 1)),
        lambda loss, x, y: loss(x, y, groups=torch.tensor(GROUPS)),
        lambda row, x, y: layouts.two_views(x, y, row, TEMPERATURE, GROUPS),
    ),
    "in batch, extra, mask": (
        (rows(5, 0), rows(5, 1), rows(4, 2)),
        lambda loss, x, y, extra: loss.in_batch(x, y, extra=extra, valid=MASK),
        lambda row, x, y, extra: layouts.pairs(x, y, row, TEMPERATURE, extra, MASK),
    ),
    "both directions, extra": (
        (rows(4, 0), rows(4, 1), rows(3, 2)),
        lambda loss, x, y, extra: loss.in_batch(x, y, extra=extra, both_directions=True),
        lambda row, x, y, extra: both_ways(row, x, y, extra, None),
    ),
    "both directions, mask": (
        (rows(5, 0), rows(5, 1)),
        lambda loss, x, y: loss.in_batch(x, y, valid=SQUARE, both_directions=True),
        lambda row, x, y: both_ways(row, x, y, None, SQUARE),
    ),
    **{
        name: (
            (rows(3, 0), rows(3, 1), drawn),
            lambda loss, x, y, candidates: loss.sampled(x, y, candidates),
            candidates_loop,
        )
        for name, drawn in (
            ("own candidates", rows(12, 2).detach().view(3, 4, 6).requires_grad_()),
            ("shared candidates", rows(4, 3)),
        )
    },
    "logits": (
        (rows(1, 0).detach()[0, :3].requires_grad_(), rows(3, 1)),
        lambda loss, positive, unlabeled: loss.from_logits(positive, unlabeled),
        lambda row, positive, unlabeled: torch.stack(
            [row(positive[i], list(unlabeled[i])) for i in range(3)]
        ),
    ),
}


@each("layout", list(LAYOUTS))
@names
def test_every_layout_equals_the_slow_loop(name: str, layout: str) -> None:
    make, row = LOSSES[name]
    inputs, call, expected = LAYOUTS[layout]
    loss = make(temperature=TEMPERATURE, reduction="none")
    assert_same(call(loss, *inputs), expected(row, *inputs), inputs)


@names
@each("seed", range(3))
def test_gradients_through_embeddings_are_right_to_second_order(name: str, seed: int) -> None:
    make, _ = LOSSES[name]
    loss = make(temperature=TEMPERATURE)
    inputs = (rows(3, 10 + seed, dim=3), rows(3, 20 + seed, dim=3))
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


@each(("alpha", "beta", "tau_plus"), [(0.9, 0.9, 0.1), (0.7, 1.0, 0.01)])
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
