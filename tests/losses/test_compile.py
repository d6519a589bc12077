"""``torch.compile`` traces every loss and layout without a break, to the same values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from cases import rows
from reference.objectives import WEIGHTINGS
from torch import Tensor

import bayescl
from bayescl import Margin, Rows
from bayescl.functional import info_nce_loss

LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    **{name: row.made for name, row in WEIGHTINGS.items()},
    "oracle": bayescl.OracleContrastiveLoss,
    "supervised": bayescl.SupervisedContrastiveLoss,
    "own function": lambda **shared: bayescl.ContrastiveLoss(info_nce_loss, **shared),
}
BATCH = 7
VIEWS = [rows(BATCH, seed) for seed in (0, 1)]
PAIRS, EXTRA = rows(2 * BATCH, 2), rows(5, 3)
OF = torch.arange(BATCH).repeat(2)
LABELS = torch.tensor([0, 1, 0, -1, 1, 2, -1])
KNOWN = {"teacher": rows(BATCH, 4, dim=3), "labels": LABELS, "groups": torch.arange(BATCH)}
OF_PAIRS = {name: torch.cat([part, part]) for name, part in KNOWN.items()}
MORE = {"teacher": rows(5, 5, dim=3), "labels": LABELS[:5], "groups": torch.arange(10, 15)}
Call = Callable[[bayescl.ContrastiveLoss, list[Tensor]], Tensor]
LAYOUTS: dict[str, Call] = {
    "two views": lambda loss, x: loss(*x[:2], **KNOWN),
    "several positives": lambda loss, x: loss.in_batch(
        x[0],
        x[2],
        anchor_of=OF,
        extra=Rows(x[3], **MORE),
        both_directions=True,
        margin=Margin(relative=0.9, by_teacher=True),
        **OF_PAIRS,
    ),
    "sampled": lambda loss, x: loss.sampled(
        x[0],
        Rows(x[1], log_q=KNOWN["teacher"][:, 0]),
        Rows(x[3], log_q=MORE["teacher"][:, 0], **MORE),
        valid=torch.ones(BATCH, 5, dtype=torch.bool).tril(3),
        **KNOWN,
    ),
    "own candidates, temperature": lambda loss, x: loss.sampled(
        x[0],
        x[1],
        Rows(x[3].expand(BATCH, 5, 6), groups=MORE["groups"].expand(BATCH, 5)),
        temperature=x[4],
        **KNOWN,
    ),
    "logits": lambda loss, x: loss.from_logits(
        x[0][:, 0], x[1], target=KNOWN["teacher"].abs().softmax(1).repeat(1, 2) / 4, valid=x[1] < 1
    ),
}


DEFAULT = {(name, "two views") for name in ("hard", "bayesian", "supervised", "own function")}
DEFAULT |= {("bayesian", layout) for layout in LAYOUTS}
"""Cases that are not slow; each takes seconds."""


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        pytest.param(*case, marks=[] if case in DEFAULT else pytest.mark.slow)
        for case in product(LOSSES, LAYOUTS)
    ],
)
def test_a_compiled_loss_has_the_values_and_gradients_of_the_plain_one(
    name: str, layout: str
) -> None:
    torch._dynamo.reset()
    loss, call = LOSSES[name](), LAYOUTS[layout]
    given = [*VIEWS, PAIRS, EXTRA, torch.tensor(0.3)]
    leaves = [part.clone().requires_grad_() for part in given]

    def step(*x: Tensor) -> Tensor:
        return call(loss, list(x))

    traced = torch.compile(step, fullgraph=True, backend="aot_eager")
    found: list[Any] = [step(*leaves), traced(*leaves)]
    torch.testing.assert_close(*found)
    gradients = [torch.autograd.grad(value, leaves, materialize_grads=True) for value in found]
    torch.testing.assert_close(*gradients)
