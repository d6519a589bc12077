"""Every layout with every loss: against a float64 loop over pairs, masked, and compiled."""

from itertools import product
from typing import Any

import pytest
import torch
from reference.calls import leaves_of, pairs_of, with_leaves
from reference.cases import CASES, LOSSES, VIEWS
from reference.objectives import WEIGHTINGS
from torch import Tensor

import bayescl

pytestmark = pytest.mark.filterwarnings("ignore:half of the anchors have at most")


def of_loop(case: str, name: str, temperature: Tensor) -> dict[str, list[Tensor]]:
    """Value and gradients by reduction, of the embeddings and of the temperature."""
    layout, given = CASES[case].layout, CASES[case].given
    leaves = {key: part.clone().requires_grad_() for key, part in leaves_of(given).items()}
    settings = CASES[case].settings_of(name)
    pairs = pairs_of(layout, with_leaves(given, leaves), temperature, **settings)
    row = LOSSES[name][1](temperature)
    each = torch.cat([direction.losses(row) for direction in pairs])
    values = {"none": each, "sum": each.sum()}
    values["mean"] = each.sum() / sum(direction.weight.sum() for direction in pairs)
    wanted = [*leaves.values(), temperature]
    return {
        reduction: [value, *gradients(value, wanted, retain_graph=True)]
        for reduction, value in values.items()
    }


def gradients(value: Tensor, wanted: list[Tensor], **options: bool) -> tuple[Tensor, ...]:
    """Gradients, each entry of the value with a weight of its own."""
    weights = torch.linspace(0.5, 2, value.numel()).to(value) if value.ndim else None
    return torch.autograd.grad(value, wanted, weights, materialize_grads=True, **options)


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case in CASES for name in LOSSES if CASES[case].suits(name)]
)
def test_values_and_gradients_equal_those_of_a_loop_over_pairs(case, name):
    temperature = torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    expected = of_loop(case, name, temperature)
    given, number = CASES[case].given, list(LOSSES).index(name)
    for engine, chunk_size, reduction in (
        ("reference", None, ("none", "sum", "mean")[number % 3]),
        ("blocked", 1, "sum"),
        ("blocked", 4, "none"),
        ("blocked", None, "mean"),
    ):
        shared = {"engine": engine, "chunk_size": chunk_size, "reduction": reduction}
        loss = LOSSES[name][0](**shared, **CASES[case].settings_of(name), normalize=False)
        for dtype, within in ((torch.float64, 1e-12), (torch.float32, 5e-6)):
            leaves = {
                key: part.to(dtype, copy=True).requires_grad_()
                for key, part in leaves_of(given).items()
            }
            own = temperature.detach().to(dtype, copy=True).requires_grad_()
            value = CASES[case].run(loss, with_leaves(given, leaves), temperature=own)
            found = [value, *gradients(value, [*leaves.values(), own])]
            for mine, other in zip(found, expected[reduction], strict=True):
                off = (mine - other).detach().abs().max()
                off = off / other.detach().abs().max().clamp(min=1)
                assert off < within, (engine, chunk_size, reduction, mine.shape, off)


def test_the_supervised_loss_is_that_of_the_paper():
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


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("name", list(WEIGHTINGS))
def test_a_positive_that_is_not_finite_leaves_the_ranks_of_its_anchor_as_they_were(
    name, engine, value
):
    generator = torch.Generator().manual_seed(0)
    anchors, pairs = (
        torch.randn(rows, 2, generator=generator, dtype=torch.float64) for rows in (4, 9)
    )
    anchor_of = torch.tensor([0, 1, 2, 3, 1, 2, 3, 0, 0])
    loss = WEIGHTINGS[name].made(normalize=False, reduction="none", engine=engine)
    expected = loss.in_batch(anchors, pairs[:-1], anchor_of=anchor_of[:-1])
    pairs[-1] = value
    values = loss.in_batch(anchors, pairs, anchor_of=anchor_of)
    assert values.isfinite().tolist() == [*(anchor_of[:-1] == 0).tolist(), False]
    torch.testing.assert_close(values[values.isfinite()], expected[anchor_of[:-1] == 0])


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


LAYOUTS = ["two views, teacher, labels", "several positives, teacher, labels", "shared candidates"]
LAYOUTS += ["own candidates, margin by teacher", "logits"]
COMBINATIONS = [each for each in product(LOSSES, LAYOUTS) if CASES[each[1]].suits(each[0])]
FAST = {(name, LAYOUTS[0]) for name in ("hard", "bayesian", "supervised", "own function")}
FAST |= {("bayesian", layout) for layout in LAYOUTS}
"""Combinations that are not slow; each takes seconds."""
RANKED = ("bayesian", "own data, by rank")
"""Losses for which ties of logits must stay ties: rows are not normalized."""


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
