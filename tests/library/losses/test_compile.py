"""``torch.compile`` traces every loss and layout without a break, to the same values."""

from itertools import product

import pytest
import torch
from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES
from torch import Tensor

LAYOUTS = ["two views, teacher, labels", "several positives, teacher, labels", "shared candidates"]
LAYOUTS += ["own candidates, margin by teacher", "logits"]
COMBINATIONS = [each for each in product(LOSSES, LAYOUTS) if CASES[each[1]].suits(each[0])]
FAST = {(name, LAYOUTS[0]) for name in ("hard", "bayesian", "supervised", "own function")}
FAST |= {("bayesian", layout) for layout in LAYOUTS}
"""Combinations that are not slow; each takes seconds."""
RANKED = ("bayesian", "own data, by rank")
"""Losses for which ties of logits must stay ties: rows are not normalized."""


@pytest.mark.filterwarnings("ignore:half of the anchors have at most")
@pytest.mark.parametrize(
    ("name", "case"),
    [pytest.param(*each, marks=[] if each in FAST else pytest.mark.slow) for each in COMBINATIONS],
)
def test_a_compiled_loss_has_the_values_and_gradients_of_the_plain_one(name, case):
    torch._dynamo.reset()
    loss, given = LOSSES[name][0](normalize=not name.startswith(RANKED)), CASES[case].given
    leaves = {key: part.clone().requires_grad_() for key, part in leaves_of(given).items()}
    temperature = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    wanted = [*leaves.values(), temperature]

    def step(*parts: Tensor) -> Tensor:
        *rows, scale = parts
        changed = with_leaves(given, dict(zip(leaves, rows, strict=True)))
        return CASES[case].run(loss, changed, temperature=scale)

    traced = torch.compile(step, fullgraph=True, backend="aot_eager")
    found = [step(*wanted), traced(*wanted)]
    torch.testing.assert_close(*found)
    gradients = [torch.autograd.grad(value, wanted, materialize_grads=True) for value in found]
    torch.testing.assert_close(*gradients)
