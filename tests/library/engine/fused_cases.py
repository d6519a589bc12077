"""The fused engine on the cases of all engines, in Triton's interpreter, as a program.

    TRITON_INTERPRET=1 python tests/library/engine/fused_cases.py

Compares values and gradients in float32 with the reference in float64. Ranks of the reference come
from the same bins of the cosines.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES, Case

import bayescl
from bayescl import LearnableTemperature, Margin, Rows
from bayescl._engine import fused
from bayescl._ops.ranks import BINS
from bayescl.batch import Batch
from bayescl.functional import LogSumObjective, empirical_cdf

TOLERANCE = 2e-5
TEMPERATURE = 0.25
LIKE_OTHERS = ("debiased, floored", "bayesian, perfect")
"""Losses with the sums of another loss: the kernels do the same for both."""
FEW = ("info_nce", "bayesian", "own data, by rank")
"""Losses for the larger cases."""

Leaves = dict[str, Tensor]
Call = Callable[[bayescl.ContrastiveLoss, Leaves], Tensor]


def binned_log_weights(
    objective: LogSumObjective, unlabeled: Tensor, *, valid: Tensor | None
) -> Tensor:
    """Log weights by the ranks of the cosines' bins."""
    if objective.ranks is None:
        return torch.zeros_like(unlabeled)
    place = (unlabeled.detach() * TEMPERATURE + 1) / 2 * BINS
    bins = place.floor().clamp(0, BINS - 1)
    return objective.weights_of_cdf(empirical_cdf(bins, valid=valid, ranks=objective.ranks)).log()


def results(
    make: Callable[..., bayescl.ContrastiveLoss],
    call: Call,
    leaves: Leaves,
    dtype: torch.dtype,
    engine: str,
) -> list[Tensor | None]:
    """The loss, and its gradients by the leaves and the parameters."""
    loss = make(engine=engine)
    given = {name: part.to(dtype, copy=True).requires_grad_() for name, part in leaves.items()}
    value = call(loss, given)
    wanted = [*given.values(), *loss.parameters()]
    return [value.detach(), *torch.autograd.grad(value, wanted, allow_unused=True)]


def error(make: Callable[..., bayescl.ContrastiveLoss], call: Call, leaves: Leaves) -> float:
    """The largest error of the loss and its gradients, relative to their norms."""
    found = results(make, call, leaves, torch.float32, "fused")
    right = results(make, call, leaves, torch.float64, "reference")
    errors = [0.0]
    for one, other in zip(found, right, strict=True):
        if one is not None and other is not None:
            errors.append(float((one - other).norm() / other.norm().clamp(min=1e-3)))
    return max(errors)


def calls() -> Iterator[tuple[str, Callable[..., bayescl.ContrastiveLoss], Call, Leaves]]:
    """Every case with every loss: a title, the loss, the call and its embeddings."""
    for title, case in (CASES | larger_cases()).items():
        names = FEW if title.startswith("larger") else LOSSES
        for name in names:
            if name in LIKE_OTHERS or not case.suits(name) or case.layout == "from_logits":
                continue
            settings = {"temperature": TEMPERATURE, **case.settings_of(name)}
            yield (
                f"{title}, {name}",
                partial(LOSSES[name][0], **settings),
                lambda loss, leaves, case=case: case.run(loss, with_leaves(case.given, leaves)),
                leaves_of(case.given),
            )
    for name, call in LARGER_CALLS.items():
        yield name, partial(bayescl.InfoNCELoss, temperature=TEMPERATURE), call, embeddings(3)
    make = partial(bayescl.InfoNCELoss, temperature=LearnableTemperature(TEMPERATURE))
    yield "learnable temperature", make, lambda loss, x: loss(x["0"], x["1"]), embeddings(2)


def embeddings(count: int) -> Leaves:
    drawn = torch.randn(count, 12, 24, generator=torch.Generator().manual_seed(1)).double()
    return {str(number): rows for number, rows in enumerate(drawn)}


def larger_cases() -> dict[str, Case]:
    """Several tiles, where the blocks of a program are not full, and a padded dimension."""
    one, other, extra = embeddings(3).values()
    number = torch.arange(12)
    known = {
        "groups": torch.stack([number % 5 - 1, number // 5], dim=1),
        "domains": number % 3 - 1,
        "labels": number % 4 - 1,
        "teacher": extra.roll(1, 0)[:, :7] * (number % 6 > 0)[:, None],
    }
    views, pairs = {"view_1": one, "view_2": other}, {"anchors": one, "positives": other}
    return {
        "larger views": Case("two_views", views),
        "larger views, all": Case("two_views", views | known, {"positive_share": None}),
        "larger views, sharp teacher": Case(
            "two_views", views | known, {"teacher_temperature": 0.01}
        ),
        "larger pairs, all": Case(
            "in_batch",
            {
                **pairs,
                "extra": Rows(extra, domains=number % 2),
                "margin": Margin(relative=0.95),
                "both_directions": True,
                **known,
            },
        ),
        "larger pairs, several positives": Case(
            "in_batch", {**pairs, "anchor_of": number % 7, "both_directions": True}
        ),
    }


def columns_of_three_processes(loss: bayescl.ContrastiveLoss, x: Leaves) -> Tensor:
    """The second of three processes: its rows are among the columns of all."""
    every = Rows(torch.nn.functional.normalize(torch.cat(list(x.values())), dim=1))
    place = 12 + torch.arange(12)
    mine = every[place]
    positive = 12 + torch.arange(12).roll(6)
    batch = Batch("two_views", mine, every[positive], (every,), own=place, positive=positive)
    return loss.evaluate(replace(batch, are_units=True))


LARGER_CALLS: dict[str, Call] = {
    "three views": lambda loss, x: loss(*x.values()),
    "columns of three processes": columns_of_three_processes,
}


def change_by_bins() -> tuple[float, float]:
    """Relative change of a Bayesian loss and its gradient, against exact ranks."""
    fused._BLOCK = 256
    views = torch.randn(2, 300, 32, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found, right = [], []
    for engine, into in (("fused", found), ("reference", right)):
        loss = bayescl.BayesianContrastiveLoss(temperature=0.1, beta=0.9, engine=engine)
        value = loss(*views)
        into += [value.detach(), *torch.autograd.grad(value, views)]
    loss, gradient = (
        float((one - other).norm() / other.norm()) for one, other in zip(found, right, strict=True)
    )
    return loss, gradient


def main() -> None:
    """Raise an error if a case is off; print how many the kernels computed, and how well."""
    warnings.simplefilter("ignore")
    used, real = [], fused.is_covered

    def is_covered(*given: Any) -> bool:
        used.append(real(*given))
        return used[-1]

    fused.is_covered = is_covered
    loss_change, gradient_change = change_by_bins()
    fused._BLOCK, worst = 16, 0.0
    exact, LogSumObjective.log_weights = LogSumObjective.log_weights, binned_log_weights
    used.clear()
    for title, make, call, leaves in calls():
        off = error(make, call, leaves)
        if not off <= TOLERANCE:
            raise AssertionError(f"{title}: off by {off:.1e}")
        worst = max(worst, off)
    LogSumObjective.log_weights = exact
    rows = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value = bayescl.InfoNCELoss(engine="fused")(*rows)
    gradient = torch.autograd.grad(value, rows, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        torch.autograd.grad(gradient.sum(), rows)
    infinite = torch.ones_like(rows).masked_fill(rows == rows[0, 3, 1], -torch.inf)
    for make in (bayescl.InfoNCELoss, bayescl.BayesianContrastiveLoss):
        assert make(engine="fused")(*infinite).isnan()
        assert make(engine="fused", normalize=False)(*infinite).isnan()
    sys.stdout.write(
        f"{sum(used)} of {len(used)} calls by the kernels, largest error {worst:.1e}; binned ranks "
        f"change loss and gradient by {loss_change:.1e} and {gradient_change:.1e}\n"
    )


if __name__ == "__main__":
    main()
