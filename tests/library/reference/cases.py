"""Losses and calls of every layout and option; each suite computes them in its own way.

Embeddings lie on a coarse grid, so logits are exact, and many tie or lie at the margin.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

import bayescl
from bayescl import Margin, Rows
from bayescl.functional import LogSumObjective
from reference import objectives
from reference.objectives import empirical_cdf, log_sum

DIM, GENERATOR = 5, torch.Generator().manual_seed(11)


def own_function(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
    """A user's own objective, of no sum of exponentials; 0 without candidates."""
    kept = unlabeled if valid is None else unlabeled.masked_fill(~valid, -torch.inf)
    return own_row(positive, kept.T)


def own_row(positive: Tensor, unlabeled: Tensor) -> Tensor:
    start = positive.tanh()
    return softplus(0.2 * unlabeled.sigmoid().sum(dim=0) - start) - softplus(-start)


class Sharpened(LogSumObjective):
    """A user's own objective as data: one sum of another power."""

    powers = (1.5,)


@dataclass(frozen=True)
class EasyFirst(LogSumObjective):
    """A user's own objective as data: weights that fall with the rank to 0, and three powers."""

    ranks: str = "upper"
    powers = (2.0, 0.0, 0.5)

    def weights_of_cdf(self, cdf: Tensor) -> Tensor:
        return 2 * (1 - cdf)

    def from_log_sums(self, positive: Tensor, log_sums: tuple[Tensor, ...]) -> Tensor:
        double, count, half = log_sums
        return softplus(double - positive) + 0.3 * softplus(half) + 0.1 * softplus(count)


def easy_first(positive: Tensor, unlabeled: Tensor) -> Tensor:
    weights = 2 * (1 - empirical_cdf(unlabeled, "upper"))
    double, half = (log_sum(power * unlabeled, weights) for power in (2.0, 0.5))
    count = torch.tensor(float(len(unlabeled)), dtype=torch.float64).log()
    return EasyFirst().from_log_sums(positive, (double, count, half))


Row = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, tuple[Callable[..., bayescl.ContrastiveLoss], Callable[[Any], Row]]] = {
    **{
        name: (row.made, lambda temperature, row=row: row.on_logits(-1 / temperature)[1])
        for name, row in objectives.WEIGHTINGS.items()
    },
    "oracle": (bayescl.OracleContrastiveLoss, lambda _: objectives.info_nce),
    "supervised": (bayescl.SupervisedContrastiveLoss, lambda _: objectives.info_nce),
    "own function": (partial(bayescl.ContrastiveLoss, own_function), lambda _: own_row),
    "own data": (
        partial(bayescl.ContrastiveLoss, Sharpened()),
        lambda _: lambda p, u: objectives.info_nce(p, 1.5 * u),
    ),
    "own data, by rank": (partial(bayescl.ContrastiveLoss, EasyFirst()), lambda _: easy_first),
}
"""How to make each loss, and the loss of one pair by its temperature and its logits."""


@dataclass(frozen=True)
class Case:
    """A call of a loss, and settings that the loss is made with."""

    layout: str
    given: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def run(self, loss: bayescl.ContrastiveLoss, given: dict[str, Any], **more: Any) -> Tensor:
        """Call a loss in the case's layout."""
        call = loss if self.layout == "two_views" else getattr(loss, self.layout)
        return call(**given, **more)

    def suits(self, name: str) -> bool:
        """Whether the case has the metadata that a loss needs."""
        if self.layout == "from_logits" or name not in ("oracle", "supervised"):
            return True
        needed = "groups" if name == "oracle" else "labels"
        others = [self.given[side] for side in ("extra", "candidates") if side in self.given]
        has_others = all(isinstance(rows, Rows) and rows.groups is not None for rows in others)
        return needed in self.given and (name == "supervised" or has_others)

    def settings_of(self, name: str) -> dict[str, Any]:
        """The settings with a loss, which may choose its own target."""
        return self.settings | ({"positive_share": None} if name == "supervised" else {})


def rows(*shape: int) -> Tensor:
    return (torch.randn(*shape, DIM, generator=GENERATOR, dtype=torch.float64) * 2).round() / 4


def keys(*shape: int) -> Tensor:
    """-1 to 2, where -1 is no group, no known domain and no known label."""
    return torch.randint(-1, 3, shape, generator=GENERATOR)


def teacher(*shape: int) -> Tensor:
    return torch.randn(*shape, 3, generator=GENERATOR, dtype=torch.float64)


def some_teacher(*shape: int) -> Tensor:
    """Rows of a teacher, some of which are zero: not known."""
    return teacher(*shape) * (torch.rand(*shape, 1, generator=GENERATOR) < 0.7)


def classes(*shape: int) -> Tensor:
    """0 and 1 for each of four classes; rows of -1 or NaN are not known."""
    found = torch.randint(0, 2, (*shape, 4), generator=GENERATOR).float()
    kind = torch.randint(0, 6, (*shape, 1), generator=GENERATOR)
    return found.masked_fill(kind == 0, -1).masked_fill(kind == 1, torch.nan)


def shares(*shape: int) -> Tensor:
    """Target probabilities; some anchors have none."""
    found = torch.rand(*shape, generator=GENERATOR, dtype=torch.float64)
    found = found * (torch.rand(*shape, generator=GENERATOR) < 0.5)
    return found / (found.sum(dim=1, keepdim=True) + 0.5) * mask(shape[0], 1)


def mask(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=GENERATOR) < 0.8


def log_q(*shape: int) -> Tensor:
    return -torch.randint(1, 9, shape, generator=GENERATOR).double() / 4


ANCHORS, PAIRS = 6, 11
OF_ONE_PROCESS = torch.block_diag(*(torch.ones(size, size) for size in (2, 1, 4, 1)))
"""Pairs of eight anchors that stay together, however the suites divide them among processes."""
SEVERAL = {
    "anchor_of": torch.tensor([4, 0, 3, 0, 5, 3, 1, 3, 0, 4, 1]),  # in no order, and 2 has none
    "positive_weight": torch.rand(PAIRS, generator=GENERATOR),
}
VIEWS = {"view_1": rows(8), "view_2": rows(8)}
TOWERS = {"anchors": rows(8), "positives": rows(8)}
FEW = {"anchors": rows(ANCHORS), "positives": rows(PAIRS), **SEVERAL}

CASES = {
    "two views": Case("two_views", VIEWS),
    "two views, groups, domains": Case(
        "two_views", {**VIEWS, "groups": keys(8), "domains": keys(8, 2), "valid": mask(16, 16)}
    ),
    "two views, margin": Case(
        "two_views", {**VIEWS, "margin": Margin(relative=0.75), "groups": keys(8)}
    ),
    "two views, teacher": Case("two_views", {**VIEWS, "teacher": teacher(8)}),
    "two views, teacher, groups": Case(
        "two_views",
        {
            **VIEWS,
            "teacher": teacher(8),
            "groups": keys(8, 2),
            "domains": keys(8),
            "valid": mask(16, 16),
        },
    ),
    "two views, labels": Case("two_views", {**VIEWS, "labels": keys(8)}),
    "two views, teacher, labels": Case(
        "two_views",
        {**VIEWS, "teacher": teacher(8), "labels": keys(8), "groups": keys(8)},
        {"positive_share": 0.2, "teacher_temperature": 0.4},
    ),
    "two views, margin by teacher": Case(
        "two_views",
        {**VIEWS, "teacher": teacher(8), "margin": Margin(absolute=-0.1, by_teacher=True)},
    ),
    "in batch, both directions": Case("in_batch", {**TOWERS, "both_directions": True}),
    "several positives": Case(
        "in_batch",
        {
            **FEW,
            "anchors": Rows(rows(ANCHORS), log_q=log_q(ANCHORS)),
            "groups": keys(PAIRS),
            "domains": keys(PAIRS),
            "extra": Rows(rows(7), groups=keys(7), domains=keys(7), log_q=log_q(7)),
            "valid": mask(ANCHORS, PAIRS + 7),
            "log_q": log_q(PAIRS),
            "both_directions": True,
        },
    ),
    "several positives, margin by teacher": Case(
        "in_batch",
        {
            **FEW,
            "anchors": Rows(rows(ANCHORS), teacher=teacher(ANCHORS)),
            "teacher": teacher(PAIRS),
            "extra": Rows(rows(7), teacher=teacher(7)),
            "margin": Margin(absolute=0.1, extra=True, by_teacher=True),
            "both_directions": True,
        },
    ),
    "several positives, teacher, labels": Case(
        "in_batch",
        {
            **FEW,
            "extra": Rows(rows(7), groups=keys(7)),
            "teacher": teacher(PAIRS),
            "labels": keys(PAIRS),
            "groups": keys(PAIRS),
            "both_directions": True,
        },
        {"positive_share": 0.1},
    ),
    "own extra": Case(
        "in_batch",
        {
            **TOWERS,
            "extra": Rows(
                rows(8, 4),
                groups=keys(8, 4, 2),
                domains=keys(8, 4),
                labels=keys(8, 4),
                teacher=teacher(8, 4),
            ),
            "groups": keys(8, 2),
            "domains": keys(8),
            "labels": keys(8),
            "teacher": teacher(8),
            "log_q": log_q(8),
            "valid": mask(8, 12),
        },
    ),
    "own extra, several positives, margin": Case(
        "in_batch",
        {
            **FEW,
            "extra": rows(ANCHORS, 4),
            "margin": Margin(relative=0.5, extra=True),
            "both_directions": True,
        },
    ),
    "exempt extra": Case(
        "in_batch",
        {**TOWERS, "extra": rows(4), "margin": Margin(relative=1.25), "both_directions": True},
    ),
    "shared candidates": Case(
        "sampled",
        {
            **FEW,
            "positives": Rows(rows(PAIRS), log_q=log_q(PAIRS)),
            "candidates": Rows(
                rows(9),
                groups=keys(9, 2),
                domains=keys(9, 2),
                labels=keys(9),
                teacher=teacher(9),
                log_q=log_q(9),
            ),
            "groups": keys(ANCHORS, 2),
            "domains": keys(ANCHORS, 2),
            "labels": keys(ANCHORS),
            "teacher": teacher(ANCHORS),
            "valid": mask(ANCHORS, 9),
        },
    ),
    "positives among the candidates": Case(
        "sampled",
        {
            **FEW,
            "positives": torch.randint(0, 9, (PAIRS,), generator=GENERATOR),
            "candidates": Rows(rows(9), domains=keys(9), labels=keys(9)),
            "domains": keys(ANCHORS),
            "labels": keys(ANCHORS),
            "valid": mask(ANCHORS, 9) & (torch.arange(ANCHORS) > 2)[:, None],
        },
    ),
    "own candidates": Case(
        "sampled",
        {
            **FEW,
            "positives": Rows(rows(PAIRS), log_q=log_q(PAIRS)),
            "candidates": Rows(
                rows(ANCHORS, 6),
                domains=keys(ANCHORS, 6),
                teacher=teacher(ANCHORS, 6),
                log_q=log_q(ANCHORS, 6),
            ),
            "domains": keys(ANCHORS),
            "teacher": teacher(ANCHORS),
            "valid": mask(ANCHORS, 6),
            "margin": Margin(absolute=0.25),
        },
    ),
    "shared candidates, margin by teacher": Case(
        "sampled",
        {
            **FEW,
            "anchors": Rows(rows(ANCHORS), groups=keys(ANCHORS)),
            "positives": Rows(rows(PAIRS), teacher=teacher(PAIRS)),
            "candidates": Rows(rows(9), groups=keys(9), teacher=teacher(9)),
            "teacher": teacher(ANCHORS),
            "margin": Margin(absolute=-0.2, by_teacher=True),
        },
    ),
    "own candidates, margin by teacher": Case(
        "sampled",
        {
            **TOWERS,
            "candidates": Rows(rows(8, 6), groups=keys(8, 6), teacher=teacher(8, 6)),
            "groups": keys(8),
            "teacher": teacher(8),
            "margin": Margin(relative=0.7, by_teacher=True),
        },
    ),
    "logits": Case(
        "from_logits",
        {
            "positive": rows(8)[:, 0],
            "unlabeled": rows(8),
            "valid": mask(8, DIM),
            "target": rows(8).softmax(dim=1) / 2,
        },
    ),
}
CASES |= {
    "two views, target": Case(
        "two_views", {**VIEWS, "target": shares(16, 16), "groups": keys(8), "valid": mask(16, 16)}
    ),
    "two views, several classes": Case(
        "two_views",
        {**VIEWS, "teacher": some_teacher(8), "labels": classes(8), "domains": keys(8)},
        {"positive_share": 0.3},
    ),
    "several positives, target": Case(
        "in_batch",
        {
            **FEW,
            "extra": Rows(rows(7), domains=keys(7)),
            "target": shares(ANCHORS, PAIRS + 7).to_sparse(),
            "domains": keys(PAIRS),
        },
    ),
    "both directions, target": Case(
        "in_batch",
        {
            **TOWERS,
            "extra": rows(8, 4),
            "target": torch.cat([shares(8, 8) / 8 * OF_ONE_PROCESS, shares(8, 4) / 2], dim=1),
            "both_directions": True,
        },
    ),
    "own extra, several classes": Case(
        "in_batch",
        {
            **TOWERS,
            "extra": Rows(rows(8, 4), labels=classes(8, 4), teacher=some_teacher(8, 4)),
            "labels": classes(8),
            "teacher": some_teacher(8),
            "both_directions": True,
        },
        {"positive_share": None},
    ),
    "shared candidates, target": Case(
        "sampled", {**FEW, "candidates": rows(9), "target": shares(ANCHORS, 9)}
    ),
    "own candidates, several classes": Case(
        "sampled",
        {
            **TOWERS,
            "candidates": Rows(rows(8, 6), domains=keys(8, 6), labels=classes(8, 6)),
            "domains": keys(8),
            "labels": classes(8),
        },
    ),
}
CASES["several positives, one direction"] = Case(
    "in_batch", CASES["several positives"].given | {"both_directions": False}
)
