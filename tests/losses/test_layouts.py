"""Every call of every loss against a float64 loop over its pairs, on both engines, to rounding.

In float32, too: no engine errs more than rounding explains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from reference import objectives as reference
from reference.calls import Pairs, pairs_of
from torch import Tensor

import bayescl
from bayescl import Margin

DIM, GENERATOR = 5, torch.Generator().manual_seed(11)


def rows(*shape: int) -> Tensor:
    """Rows on a coarse grid, so that logits are exact, and many tie or lie at the margin."""
    return (torch.randn(*shape, DIM, generator=GENERATOR, dtype=torch.float64) * 2).round() / 4


def keys(*shape: int) -> Tensor:
    """-1 to 2, where -1 is no group and no known domain."""
    return torch.randint(-1, 3, shape, generator=GENERATOR)


def mask(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=GENERATOR) < 0.8


def log_q(*shape: int) -> Tensor:
    return -torch.randint(1, 9, shape, generator=GENERATOR).double() / 4


ANCHORS, PAIRS = 6, 11
OF = torch.tensor([4, 0, 3, 0, 5, 3, 1, 3, 0, 4, 1])  # in no order, and 2 has no positive
SEVERAL = {"anchor_of": OF, "positive_weight": torch.rand(PAIRS, generator=GENERATOR)}
VIEWS = {"view_1": rows(8), "view_2": rows(8)}
ROWS = {"anchors": rows(8), "positives": rows(8)}
FEW = {"anchors": rows(ANCHORS), "positives": rows(PAIRS)}
GUIDE = rows(8), rows(8)
CASES: dict[str, tuple[str, dict[str, Tensor], dict[str, Any]]] = {
    "two views": ("two_views", VIEWS, {}),
    "groups and domains": (
        "two_views",
        VIEWS,
        {"groups": keys(8), "domains": keys(8, 2), "valid": mask(16, 16)},
    ),
    "relative margin": ("two_views", VIEWS, {"margin": Margin(relative=0.75), "groups": keys(8)}),
    "absolute margin, guide": (
        "two_views",
        VIEWS,
        {"margin": Margin(absolute=-0.1), "guide": GUIDE},
    ),
    "several positives": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "groups": keys(PAIRS),
            "extra_groups": keys(7),
            "valid": mask(ANCHORS, PAIRS + 7),
            "log_q": log_q(PAIRS + 7),
        },
    ),
    "several positives, both directions": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "groups": keys(PAIRS),
            "domains": keys(PAIRS),
            "extra_groups": keys(7),
            "extra_domains": keys(7),
            "valid": mask(ANCHORS, PAIRS + 7),
            "log_q": log_q(PAIRS + 7),
            "anchor_log_q": log_q(ANCHORS),
            "both_directions": True,
        },
    ),
    "several positives, margin, guide": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "both_directions": True,
            "margin": Margin(absolute=0.1, extra=True),
            "guide": (rows(ANCHORS), rows(PAIRS), rows(7)),
        },
    ),
    "extra of each anchor": (
        "in_batch",
        {**ROWS, "extra": rows(8, 4)},
        {
            "groups": keys(8, 2),
            "extra_groups": keys(8, 4, 2),
            "domains": keys(8),
            "extra_domains": keys(8, 4),
            "log_q": log_q(8),
            "valid": mask(8, 12),
        },
    ),
    "extra of each anchor, several positives": (
        "in_batch",
        {**FEW, "extra": rows(ANCHORS, 4)},
        {**SEVERAL, "margin": Margin(relative=0.5, extra=True), "both_directions": True},
    ),
    "exempt extra": (
        "in_batch",
        {**ROWS, "extra": rows(4)},
        {"margin": Margin(relative=1.25), "both_directions": True},
    ),
    "shared candidates": (
        "sampled",
        {**FEW, "candidates": rows(9)},
        {
            **SEVERAL,
            "groups": keys(ANCHORS, 2),
            "candidate_groups": keys(9, 2),
            "domains": keys(ANCHORS, 2),
            "candidate_domains": keys(9, 2),
            "valid": mask(ANCHORS, 9),
            "log_q": log_q(9),
            "positive_log_q": log_q(PAIRS),
        },
    ),
    "positives among the candidates": (
        "sampled",
        {"anchors": rows(ANCHORS), "candidates": rows(9)},
        {
            **SEVERAL,
            "positives": torch.randint(0, 9, (PAIRS,), generator=GENERATOR),
            "valid": mask(ANCHORS, 9),
            "domains": keys(ANCHORS),
            "candidate_domains": keys(9),
        },
    ),
    "own candidates": (
        "sampled",
        {**FEW, "candidates": rows(ANCHORS, 6)},
        {
            **SEVERAL,
            "domains": keys(ANCHORS),
            "candidate_domains": keys(ANCHORS, 6),
            "log_q": log_q(ANCHORS, 6),
            "positive_log_q": log_q(PAIRS),
            "margin": Margin(absolute=0.25),
        },
    ),
    "own candidates, guide": (
        "sampled",
        {**ROWS, "candidates": rows(8, 6)},
        {
            "margin": Margin(relative=0.7),
            "guide": (*GUIDE, rows(8, 6)),
            "groups": keys(8),
            "candidate_groups": keys(8, 6),
        },
    ),
}


def supervised(attraction: float = 1.0, members_repel: bool = False) -> tuple[Any, Any]:
    given = {"attraction": attraction, "members_repel": members_repel}

    def slow(pairs: Pairs, temperature: float | Tensor) -> Tensor:
        every = zip(pairs.positive, pairs.unlabeled, pairs.counted, ~pairs.apart, strict=True)
        losses = [
            reference.latent(positive, logits[counts], same[counts].double(), **given)
            for positive, logits, counts, same in every
        ]
        return pairs.weight * torch.stack(losses)

    return partial(bayescl.SupervisedContrastiveLoss, **given), slow


def weighting(name: str) -> tuple[Any, Any]:
    row = reference.WEIGHTINGS[name]

    def slow(pairs: Pairs, temperature: float | Tensor) -> Tensor:
        return pairs.losses(row.on_logits(-1 / temperature)[1])

    return row.made, slow


LOSSES: dict[str, tuple[Callable[..., bayescl.ContrastiveLoss], Callable[..., Tensor]]] = {
    **{name: weighting(name) for name in reference.WEIGHTINGS},
    "oracle": (bayescl.OracleContrastiveLoss, weighting("info_nce")[1]),
    "supervised": supervised(1.5),
    "members repel": supervised(members_repel=True),
}
PLAIN = len(reference.WEIGHTINGS)
"""So many losses need no groups. After one that takes any, the last take one per row."""


@pytest.mark.filterwarnings("ignore:most anchors have fewer than 16 candidates")
@pytest.mark.parametrize("case", list(CASES))
def test_values_and_gradients_are_those_of_the_pairs_one_by_one(case: str) -> None:
    layout, given, options = CASES[case]
    groups = options.get("groups")
    leaves = {name: part.clone().requires_grad_() for name, part in given.items()}
    temperature = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    wanted = [*leaves.values(), temperature]
    turns = pairs_of(layout, leaves, options, temperature)
    weight = sum(turn.weight.sum() for turn in turns)
    for number, (name, (make, slow)) in enumerate(LOSSES.items()):
        if number >= PLAIN and (groups is None or (number > PLAIN and groups.ndim == 2)):
            continue
        each = torch.cat([slow(turn, temperature) for turn in turns])
        upstream = torch.linspace(0.5, 2, len(each), dtype=torch.float64)
        reduced = {"none": (each, upstream), "sum": (each.sum(), None)}
        reduced["mean"] = (each.sum() / weight, None)
        expected = {
            reduction: [value, *torch.autograd.grad(value, wanted, above, retain_graph=True)]
            for reduction, (value, above) in reduced.items()
        }
        for engine, chunk_size, reduction in (
            ("reference", None, ("none", "sum", "mean")[number % 3]),
            ("blocked", 1, "sum"),
            ("blocked", 4, "none"),
            ("blocked", None, "mean"),
        ):
            loss = make(engine=engine, chunk_size=chunk_size, reduction=reduction, normalize=False)
            call = loss if layout == "two_views" else getattr(loss, layout)
            for dtype, within in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
                own = [row.detach().to(dtype).requires_grad_() for row in wanted]
                rows_of = dict(zip(leaves, own, strict=False))
                value = call(**rows_of, **options, temperature=own[-1])
                above = upstream.to(dtype) if reduction == "none" else None
                found = [value, *torch.autograd.grad(value, own, above)]
                for mine, other in zip(found, expected[reduction], strict=True):
                    off = (mine - other).detach().abs().max()
                    off = off / other.detach().abs().max().clamp(min=1)
                    assert off < within, (name, engine, chunk_size, reduction, mine.shape, off)


def test_with_members_that_repel_it_is_the_supervised_loss_of_the_paper() -> None:
    views = [view.clone().requires_grad_() for view in VIEWS.values()]
    labels = torch.tensor([0, 1, 0, 2, 2, 0, 1, 3])
    unit = torch.cat([view / view.norm(dim=1, keepdim=True) for view in views])
    logits, classes = unit @ unit.T / 0.2, labels.repeat(2)
    expected = torch.zeros((), dtype=torch.float64)
    for i in range(16):
        others = torch.arange(16) != i
        members = others & (classes == classes[i])
        log_share = logits[i] - logits[i][others].logsumexp(0)
        expected = expected - log_share[members].mean() / 16
    loss = bayescl.SupervisedContrastiveLoss(members_repel=True, temperature=0.2)
    value = loss(*views, groups=labels)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    for mine, theirs in zip(
        torch.autograd.grad(value, views), torch.autograd.grad(expected, views), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)
