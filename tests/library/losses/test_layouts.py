"""Every call of every loss against a float64 loop over its pairs, on both engines, to rounding.

In float32, too: no engine errs more than rounding explains.
"""

import pytest
import torch
from reference.calls import leaves_of, pairs_of, with_leaves
from reference.cases import CASES, LOSSES, VIEWS
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
