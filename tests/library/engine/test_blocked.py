"""The blocked engine is the reference, computed a few anchors at a time.

``losses/test_layouts`` compares both with loops in float64, in every layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from cases import Held
from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES, EasyFirst, Sharpened
from reference.objectives import WEIGHTINGS
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import bayescl
from bayescl import contrastive_loss as base
from bayescl.functional import Debiased, LogSumObjective

MAKERS = {name: row.made for name, row in WEIGHTINGS.items()}
# Nearer to the floor's edge, the correction cancels and float32 keeps fewer digits on any engine.
MAKERS["debiased, floored"] = partial(bayescl.DebiasedContrastiveLoss, tau_plus=0.7)
names = pytest.mark.parametrize("name", list(MAKERS))
Call = Callable[[bayescl.ContrastiveLoss, list[Tensor]], Tensor]


def embeddings(*shapes: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def results(loss: bayescl.ContrastiveLoss, call: Call, inputs: list[Tensor]) -> list[Tensor]:
    """The value, and the gradients of all that wants one."""
    value = call(loss, inputs)
    upstream = torch.linspace(0.5, 2, value.numel(), dtype=value.dtype).reshape(value.shape)
    wanted = [*(one for one in inputs if one.requires_grad), *loss.parameters()]
    return [value.detach(), *torch.autograd.grad(value, wanted, upstream)]


def test_inputs_that_need_no_gradient_get_none() -> None:
    def sampled(loss: bayescl.ContrastiveLoss, rows: list[Tensor]) -> Tensor:
        return loss.sampled(*rows)

    inputs = embeddings((6, 4), (6, 4), (9, 4), dtype=torch.float32)
    loss = bayescl.BayesianContrastiveLoss(engine="blocked")
    for wanted in ([0], [1], [2], [0, 2]):
        some = [one.detach().requires_grad_(i in wanted) for i, one in enumerate(inputs)]
        losses = loss, bayescl.BayesianContrastiveLoss(engine="reference")
        torch.testing.assert_close(*(results(one, sampled, some) for one in losses))
        loss.sampled(*some).backward()
        assert [one.grad is not None for one in some] == [i in wanted for i in range(3)]
    with torch.no_grad():
        assert not loss.sampled(*inputs).requires_grad


def test_an_input_overwritten_before_the_backward_pass_is_refused() -> None:
    view_1, view_2 = embeddings((5, 3), (5, 3), dtype=torch.float64)
    anchors = 2 * view_1
    losses = bayescl.InfoNCELoss(engine="blocked", reduction="none", normalize=False).in_batch(
        anchors, view_2
    )
    anchors.detach().zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        losses.sum().backward()


@dataclass(frozen=True)
class Doubled(Debiased):
    """The debiased loss twice, without derivatives of its own."""

    def from_log_sums(self, positive: Tensor, log_sums: tuple[Tensor, ...]) -> Tensor:
        return 2 * super().from_log_sums(positive, log_sums)


def test_a_loss_derived_from_another_does_not_inherit_its_derivatives() -> None:
    inputs = embeddings((13, 7), (13, 7), dtype=torch.float64)
    make = partial(bayescl.ContrastiveLoss, Doubled(0.1, -2.0))
    expected = results(make(engine="reference"), lambda loss, x: loss(*x), inputs)
    for chunk_size in (None, 5):
        found = results(make(chunk_size=chunk_size), lambda loss, x: loss(*x), inputs)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)


def test_what_inference_has_remembered_does_for_training() -> None:
    view_1, view_2 = embeddings((61, 4), (61, 4), dtype=torch.float32)
    for engine in ("blocked", "reference"):
        loss = bayescl.BayesianContrastiveLoss(engine=engine)
        with torch.inference_mode():
            expected = loss(view_1, view_2)
        value = loss(view_1, view_2)
        value.backward()
        torch.testing.assert_close(value.detach(), expected.clone())


@pytest.mark.filterwarnings("ignore:half of the anchors have at most")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize(
    ("case", "name"),
    [
        (case, name)
        for case in ("two views", "two views, teacher", "several positives", "own candidates")
        for name in LOSSES
        if CASES[case].suits(name)
    ],
)
def test_a_second_derivative_is_refused_with_and_without_named_inputs(
    case: str, name: str, reduction: str, dtype: torch.dtype
) -> None:
    loss = LOSSES[name][0](reduction=reduction, temperature=bayescl.LearnableTemperature(0.3))
    given = CASES[case].given
    leaves = {
        key: part.to(dtype, copy=True).requires_grad_() for key, part in leaves_of(given).items()
    }
    value = CASES[case].run(loss, with_leaves(given, leaves)).sum()
    inputs = [*leaves.values(), *loss.parameters()]
    gradients = torch.autograd.grad(value, inputs, create_graph=True, allow_unused=True)
    for gradient in gradients:
        if gradient is None or not gradient.requires_grad:
            continue
        for wanted in (inputs, None):  # None: accumulate in the leaves
            with pytest.raises(RuntimeError, match="has no second derivatives"):
                torch.autograd.backward(gradient.sum(), inputs=wanted, retain_graph=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:FutureWarning")  # torch's own call
def test_batched_and_forward_mode_derivatives_name_the_reference_engine() -> None:
    view_1, view_2 = embeddings((5, 3), (5, 3), dtype=torch.float64)
    loss = bayescl.InfoNCELoss(reduction="none")
    losses = loss(view_1, view_2)
    with pytest.raises(RuntimeError, match='engine="reference"'):
        torch.autograd.grad(losses, view_1, torch.eye(10).double(), is_grads_batched=True)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match='="reference"'):
        loss(torch.autograd.forward_ad.make_dual(view_1.detach(), view_2.detach()), view_2)


class LargestTensor(TorchDispatchMode):
    """Records the number of entries of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()
        self.entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(one, Tensor):
                self.entries = max(self.entries, one.untyped_storage().nbytes() // 4)
        return result


@names
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("with_teacher", [False, True])
def test_memory_grows_linearly_with_rows_at_a_fixed_chunk_size(
    name: str, reduction: str, with_teacher: bool
) -> None:
    def footprint(batch: int) -> tuple[int, int]:
        view_1, view_2 = embeddings((batch, 4), (batch, 4), dtype=torch.float32)
        loss = MAKERS[name](engine="blocked", chunk_size=8, reduction=reduction)
        held = Held()
        with LargestTensor() as largest, held:
            loss(view_1, view_2, teacher=view_1 if with_teacher else None).sum().backward()
        return held.peak, largest.entries

    small, large = footprint(64), footprint(256)
    assert large[0] <= 4.1 * small[0]
    assert large[1] <= 4.1 * small[1]
    # Eight rows of 512 candidates, in 64-bit integers at most.
    assert large[1] <= 8 * 512 * 2
    assert large[0] < 512 * 512 / 4


def test_the_reference_is_chosen_where_something_traces_and_can_be_forced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = []
    for engine in ("blocked", "reference"):
        name = f"{engine}_losses"
        real = getattr(base, name)
        monkeypatch.setattr(
            base, name, lambda *a, real=real, name=engine, **k: used.append(name) or real(*a, **k)
        )
    view_1, view_2 = embeddings((8, 4), (8, 4), dtype=torch.float32)
    for engine in ("auto", "blocked", "reference"):
        bayescl.BayesianContrastiveLoss(engine=engine)(view_1, view_2)
    torch.func.grad(bayescl.BayesianContrastiveLoss())(view_1.detach(), view_2.detach())
    assert used == ["blocked", "blocked", "reference", "reference"]


@pytest.mark.filterwarnings("ignore:half of the anchors have at most")
@pytest.mark.parametrize("kind", [Sharpened, EasyFirst])
@pytest.mark.parametrize("case", ["two views", "several positives", "own candidates"])
def test_the_blocked_engine_never_calls_an_objective_with_the_matrix_of_logits(
    case: str, kind: type[LogSumObjective], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Tensor, **__: Tensor) -> Tensor:
        raise AssertionError("the engine fell back to the whole matrix")

    monkeypatch.setattr(LogSumObjective, "__call__", refuse)
    loss = bayescl.ContrastiveLoss(kind(), engine="blocked", chunk_size=4)
    assert CASES[case].run(loss, CASES[case].given).isfinite()
