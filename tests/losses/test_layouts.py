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
from reference.calls import Pairs, arguments, pairs_of
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


def labels(*shape: int) -> Tensor:
    """-1 to 2, where -1 is unknown."""
    return keys(*shape)


def teacher(*shape: int) -> Tensor:
    return torch.randn(*shape, 3, generator=GENERATOR, dtype=torch.float64)


CASES: dict[str, tuple[str, dict[str, Tensor], dict[str, Any]]] = {
    "two views": ("two_views", VIEWS, {}),
    "groups and domains": (
        "two_views",
        VIEWS,
        {"groups": keys(8), "domains": keys(8, 2), "valid": mask(16, 16)},
    ),
    "relative margin": ("two_views", VIEWS, {"margin": Margin(relative=0.75), "groups": keys(8)}),
    "teacher": ("two_views", VIEWS, {"teacher": teacher(8)}),
    "teacher, groups and domains": (
        "two_views",
        VIEWS,
        {"teacher": teacher(8), "groups": keys(8), "domains": keys(8), "valid": mask(16, 16)},
    ),
    "labels": ("two_views", VIEWS, {"labels": labels(8)}),
    "teacher and labels": (
        "two_views",
        VIEWS,
        {
            "teacher": teacher(8),
            "labels": labels(8),
            "positive_share": 0.2,
            "teacher_temperature": 0.4,
        },
    ),
    "absolute margin by teacher": (
        "two_views",
        VIEWS,
        {"margin": Margin(absolute=-0.1, by_teacher=True), "teacher": teacher(8)},
    ),
    "several positives": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "groups": keys(PAIRS),
            "extra_groups": keys(7),
            "valid": mask(ANCHORS, PAIRS + 7),
            "log_q": log_q(PAIRS),
            "extra_log_q": log_q(7),
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
            "log_q": log_q(PAIRS),
            "extra_log_q": log_q(7),
            "anchor_log_q": log_q(ANCHORS),
            "both_directions": True,
        },
    ),
    "several positives, margin by teacher": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "both_directions": True,
            "margin": Margin(absolute=0.1, extra=True, by_teacher=True),
            "anchor_teacher": teacher(ANCHORS),
            "teacher": teacher(PAIRS),
            "extra_teacher": teacher(7),
        },
    ),
    "several positives, teacher and labels, extra without": (
        "in_batch",
        {**FEW, "extra": rows(7)},
        {
            **SEVERAL,
            "both_directions": True,
            "teacher": teacher(PAIRS),
            "labels": labels(PAIRS),
            "groups": keys(PAIRS),
            "positive_share": 0.1,
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
            "labels": labels(8),
            "extra_labels": labels(8, 4),
            "teacher": teacher(8),
            "extra_teacher": teacher(8, 4),
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
            "teacher": teacher(ANCHORS),
            "candidate_teacher": teacher(9),
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
            "labels": labels(ANCHORS),
            "candidate_labels": labels(9),
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
            "teacher": teacher(ANCHORS),
            "candidate_teacher": teacher(ANCHORS, 6),
        },
    ),
    "shared candidates, margin by teacher of each side": (
        "sampled",
        {**FEW, "candidates": rows(9)},
        {
            **SEVERAL,
            "margin": Margin(absolute=-0.2, by_teacher=True),
            "anchor_teacher": teacher(ANCHORS),
            "positive_teacher": teacher(PAIRS),
            "candidate_teacher": teacher(9),
            "anchor_groups": keys(ANCHORS),
            "candidate_groups": keys(9),
            "anchor_labels": labels(ANCHORS),
            "candidate_labels": labels(9),
        },
    ),
    "own candidates, margin by teacher": (
        "sampled",
        {**ROWS, "candidates": rows(8, 6)},
        {
            "margin": Margin(relative=0.7, by_teacher=True),
            "teacher": teacher(8),
            "candidate_teacher": teacher(8, 6),
            "groups": keys(8),
            "candidate_groups": keys(8, 6),
        },
    ),
}


def weighting(name: str) -> tuple[Any, Any]:
    row = reference.WEIGHTINGS[name]

    def slow(pairs: Pairs, temperature: float | Tensor) -> Tensor:
        return pairs.losses(row.on_logits(-1 / temperature)[1])

    return row.made, slow


def own_function(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
    """An objective of a user's own, which is neither a sum nor symmetric."""
    kept = unlabeled if valid is None else unlabeled.masked_fill(~valid, 0.0)
    return torch.nn.functional.softplus(0.2 * kept.tanh().sum(dim=1) - positive.tanh())


def own_row(positive: Tensor, unlabeled: Tensor) -> Tensor:
    return torch.nn.functional.softplus(0.2 * unlabeled.tanh().sum() - positive.tanh())


LOSSES: dict[str, tuple[Callable[..., bayescl.ContrastiveLoss], Callable[..., Tensor]]] = {
    **{name: weighting(name) for name in reference.WEIGHTINGS},
    "own function": (
        partial(bayescl.ContrastiveLoss, own_function),
        lambda pairs, _: pairs.losses(own_row),
    ),
    "oracle": (bayescl.OracleContrastiveLoss, weighting("info_nce")[1]),
    "supervised": (bayescl.SupervisedContrastiveLoss, weighting("info_nce")[1]),
}


def _is_possible(case: str, name: str) -> bool:
    """Whether a case has the metadata that a loss needs."""
    _, given, options = CASES[case]
    if name == "oracle":
        sides = {"candidates": "candidate_groups", "extra": "extra_groups"}
        has_groups = bool({"groups", "anchor_groups"} & options.keys())
        return has_groups and {sides[side] for side in sides if side in given} <= options.keys()
    return name != "supervised" or bool({"labels", "anchor_labels"} & options.keys())


@pytest.mark.filterwarnings("ignore:half of the anchors have at most")
@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case in CASES for name in LOSSES if _is_possible(case, name)],
)
def test_values_and_gradients_equal_those_of_a_loop_over_pairs(case: str, name: str) -> None:
    layout, given, options = CASES[case]
    make, slow = LOSSES[name]
    share = {"supervised": None}.get(name, options.get("positive_share", 0.5))
    options = {**options, "positive_share": share}
    leaves = {key: part.clone().requires_grad_() for key, part in given.items()}
    temperature = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    wanted = [*leaves.values(), temperature]
    turns = pairs_of(layout, leaves, options, temperature)
    weight = sum(turn.weight.sum() for turn in turns)
    each = torch.cat([slow(turn, temperature) for turn in turns])
    upstream = torch.linspace(0.5, 2, len(each), dtype=torch.float64)
    reduced = {"none": (each, upstream), "sum": (each.sum(), None)}
    reduced["mean"] = (each.sum() / weight, None)
    expected = {
        reduction: [value, *torch.autograd.grad(value, wanted, above, retain_graph=True)]
        for reduction, (value, above) in reduced.items()
    }
    number = list(LOSSES).index(name)
    settings = {key: options.get(key) for key in ("positive_share", "teacher_temperature")}
    for engine, chunk_size, reduction in (
        ("reference", None, ("none", "sum", "mean")[number % 3]),
        ("blocked", 1, "sum"),
        ("blocked", 4, "none"),
        ("blocked", None, "mean"),
    ):
        shared = {"engine": engine, "chunk_size": chunk_size, "reduction": reduction}
        loss = make(**shared, **settings, normalize=False)
        call = loss if layout == "two_views" else getattr(loss, layout)
        for dtype, within in ((torch.float64, 1e-12), (torch.float32, 2e-6)):
            own = [row.detach().to(dtype).requires_grad_() for row in wanted]
            rows_of = dict(zip(leaves, own, strict=False))
            value = call(**arguments(layout, rows_of, options), temperature=own[-1])
            above = upstream.to(dtype) if reduction == "none" else None
            found = [value, *torch.autograd.grad(value, own, above)]
            for mine, other in zip(found, expected[reduction], strict=True):
                off = (mine - other).detach().abs().max()
                off = off / other.detach().abs().max().clamp(min=1)
                assert off < within, (engine, chunk_size, reduction, mine.shape, off)


def test_the_supervised_loss_is_that_of_the_paper() -> None:
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
    loss = bayescl.SupervisedContrastiveLoss(temperature=0.2)
    value = loss(*views, labels=labels)
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=0)
    for mine, theirs in zip(
        torch.autograd.grad(value, views), torch.autograd.grad(expected, views), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)
