"""Masked rows that are not finite change nothing; tiny temperatures keep gradients finite."""

from typing import Any

import pytest
import torch
from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES
from torch import Tensor

import bayescl

pytestmark = pytest.mark.filterwarnings("ignore:half of the anchors have at most")
MASKED = ["two views, groups, domains", "two views, teacher, groups", "several positives"]
MASKED += ["own extra", "shared candidates", "own candidates"]


def masked(case: str, value: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call that masks an anchor, its positives and another row; and one that spoils them."""
    given = CASES[case].given
    spoilt = {name: part.clone() for name, part in leaves_of(given).items()}
    valid = given["valid"].clone()
    valid[-1] = False
    if CASES[case].layout == "two_views":
        columns = [len(valid) // 2 - 1, len(valid) - 1]
        valid[columns] = False
        spoilt["view_1"][-1, 0] = spoilt["view_2"][-1, 1] = value
    else:
        whose = given.get("anchor_of", torch.arange(len(valid)))
        own = (whose == len(valid) - 1).nonzero().flatten().tolist()
        columns = [-1, *own] if CASES[case].layout == "in_batch" else [-1]
        others = spoilt["extra" if "extra" in spoilt else "candidates"]
        spoilt["anchors"][-1, 1] = spoilt["positives"][own, 0] = others[..., -1, 1] = value
    valid[:, columns] = False
    given = given | {"valid": valid}
    return given, with_leaves(given, spoilt)


def step(case: str, name: str, given: dict[str, Any], **options: Any) -> list[Tensor]:
    """The value, and the gradients of the rows and of the temperature."""
    temperature = bayescl.LearnableTemperature(0.5).to(torch.float64)
    loss = LOSSES[name][0](temperature=temperature, **CASES[case].settings_of(name), **options)
    leaves = {key: part.clone().requires_grad_() for key, part in leaves_of(given).items()}
    value = CASES[case].run(loss, with_leaves(given, leaves))
    wanted = [*leaves.values(), *loss.parameters()]
    return [value.detach(), *torch.autograd.grad(value.sum(), wanted, materialize_grads=True)]


@pytest.mark.parametrize("value", [torch.nan, -torch.inf])
@pytest.mark.parametrize(
    "options",
    [
        {"engine": "reference"},
        {"engine": "reference", "normalize": False},
        {"engine": "blocked", "reduction": "none"},
        {"engine": "blocked", "chunk_size": 4, "normalize": False},
    ],
)
@pytest.mark.parametrize(
    ("case", "name"),
    [(case, name) for case in MASKED for name in LOSSES if CASES[case].suits(name)],
)
def test_masked_rows_that_are_not_finite_change_nothing(case, name, options, value):
    clean, spoilt = (step(case, name, given, **options) for given in masked(case, value))
    assert all(part.isfinite().all() for part in clean)
    torch.testing.assert_close(spoilt, clean, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [20.0, 50.0, 80.0])
@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize("case", ["two views, teacher, labels", "own extra", "shared candidates"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_gradients_are_finite_at_temperatures_near_zero(name, case, chunk_size, scale):
    loss = LOSSES[name][0](chunk_size=chunk_size)
    s = torch.tensor(scale, requires_grad=True)
    given = CASES[case].given
    leaves = {key: part.float().requires_grad_() for key, part in leaves_of(given).items()}
    value = CASES[case].run(loss, with_leaves(given, leaves), temperature=1 / s.exp())
    gradients = torch.autograd.grad(value, [s, *leaves.values()], materialize_grads=True)
    assert value.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)
