"""The branches that a GPU takes, forced on the CPU: nothing looks at values, ranks are binned."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES
from torch import Tensor

import bayescl
from bayescl._ops.ranks import BINS, map_bounded_cdf
from bayescl.functional import empirical_cdf

pytestmark = pytest.mark.filterwarnings("ignore:half of the anchors have at most")


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("bayescl.") and hasattr(module, "is_eager_cpu"):
            monkeypatch.setattr(module, "is_eager_cpu", lambda _: False)


def results(case: str, name: str, given: dict[str, Any], **options: Any) -> list[Tensor]:
    loss = LOSSES[name][0](temperature=0.25, **CASES[case].settings_of(name), **options)
    leaves = {key: part.clone().requires_grad_() for key, part in leaves_of(given).items()}
    value = CASES[case].run(loss, with_leaves(given, leaves))
    gradients = torch.autograd.grad(value.sum(), list(leaves.values()), materialize_grads=True)
    return [value.detach(), *gradients]


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize(
    ("case", "name"),
    [
        (case, name)
        for case in CASES
        for name in LOSSES
        if CASES[case].suits(name) and CASES[case].layout != "from_logits"
    ],
)
def test_every_loss_and_layout_is_the_reference(
    case: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bayescl._ops.ranks.BINS", 2**16 + 1)  # exact for these cases
    given, chunk_size = CASES[case].given, None if CASES[case].layout == "two_views" else 3
    expected = results(case, name, given, engine="reference")
    found = results(case, name, given, engine="blocked", chunk_size=chunk_size)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("ranks", ["mid", "upper"])
@pytest.mark.parametrize("with_count", [True, False])
def test_binned_ranks_are_exact_ranks_of_rounded_logits(ranks: Any, with_count: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.rand(20, 700, generator=generator) * 10 - 5
    excluded = torch.rand(20, 700, generator=generator).argsort(dim=1) < 30
    binned = map_bounded_cdf(
        logits.masked_fill(excluded, -torch.inf),
        lambda cdf: cdf,
        reach=5.0,
        excluded=30 if with_count else None,
        ranks=ranks,
        key=ranks,
    )
    rounded = ((logits + 5) / 10 * BINS).ceil()
    expected = empirical_cdf(rounded, valid=~excluded, ranks=ranks)
    torch.testing.assert_close(binned[~excluded], expected[~excluded])


@pytest.mark.usefixtures("on_a_gpu")
@pytest.mark.parametrize("name", ["info_nce", "debiased", "hard", "bayesian"])
def test_a_row_that_is_not_finite_gives_nan(name: str) -> None:
    views = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    views[0, 3, 1] = torch.inf
    assert LOSSES[name][0]()(*views).isnan()
    assert LOSSES[name][0](normalize=False)(*views).isnan()


@pytest.mark.usefixtures("on_a_gpu")
def test_binned_ranks_change_the_bayesian_loss_and_gradient_little() -> None:
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(2, 300, 32, generator=generator).requires_grad_()
    binned, exact = (
        bayescl.BayesianContrastiveLoss(temperature=0.1, beta=0.9, engine=engine)
        for engine in ("blocked", "reference")
    )
    value, right = binned(*views), exact(*views)
    (gradient,), (expected,) = (torch.autograd.grad(one, views) for one in (value, right))
    assert abs(value / right - 1) < 1e-4
    assert (gradient - expected).norm() < 3e-3 * expected.norm()
    assert value != right
