"""The fused kernels on a real device, against float64 on the same device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from engines.test_fused_emulation import embeddings, emulate
from torch import Tensor

from bayescl.engines import ContrastiveBatch, dense_loss
from bayescl.engines import _fused_tuning as tuning
from bayescl.engines._fused_tiles import KERNELS, Precision
from bayescl.engines.fused import fused_loss, fused_unavailable_reason
from bayescl.functional import Bayesian, Debiased, Hard, InfoNCE, Objective
from bayescl.losses.layouts import drawn, pairs, two_views

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("default::DeprecationWarning"),  # Triton's own, not ours
    pytest.mark.skipif(
        fused_unavailable_reason() is not None, reason=str(fused_unavailable_reason())
    ),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]
DEVICE = "cuda"
BAYESIAN = Bayesian(0.9, 0.5, 0.1)
UNWEIGHTED: list[Objective] = [InfoNCE(), Debiased(0.1, -5.0), Hard(0.1, 0.5, -5.0)]
GIB = 2**30


def views(kind: str, batch: int, dim: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Two views, rounded to ``dtype``."""
    return [view.to(DEVICE, dtype) for view in embeddings(kind, batch, dim)]


def dyadic(count: int, dim: int, seed: int) -> Tensor:
    """Coordinates in steps of 1/16: inner products are exact in float32, whatever their order."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-7, 8, (count, dim), generator=generator) / 16).to(DEVICE)


def measure(
    make: Callable[..., ContrastiveBatch],
    inputs: list[Tensor],
    loss: Callable[[ContrastiveBatch, Tensor], Tensor],
    dtype: torch.dtype,
) -> tuple[Tensor, list[Tensor]]:
    """Losses, and gradients of their mean for all inputs and the temperature, in float64."""
    leaves = [tensor.detach().to(dtype).requires_grad_() for tensor in inputs]
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    temperature = torch.tensor(0.2, dtype=precise, device=DEVICE, requires_grad=True)
    losses = loss(make(*leaves), temperature)
    gradients = torch.autograd.grad(losses.mean(), [*leaves, temperature])
    return losses.detach().double(), [gradient.double() for gradient in gradients]


def apart(mine: Tensor, exact: Tensor) -> float:
    return float((mine - exact).norm() / exact.norm())


@pytest.mark.parametrize("dim", [16, 100, 128, 300, 1024])
@pytest.mark.parametrize("objective", UNWEIGHTED, ids=["info_nce", "debiased", "hard"])
@pytest.mark.parametrize(("precision", "tolerance"), [("ieee", 1e-5), ("tf32x3", 3e-5)])
def test_float32_equals_float64(
    objective: Objective, dim: int, precision: Precision, tolerance: float
) -> None:
    inputs = views("random", 777, dim)
    losses, gradients = measure(
        two_views, inputs, lambda b, t: dense_loss(b, t, lambda _: objective), torch.float64
    )
    ours, mine = measure(
        two_views,
        inputs,
        lambda b, t: fused_loss(b, t, lambda _: objective, precision=precision),
        torch.float32,
    )
    torch.testing.assert_close(ours, losses, rtol=tolerance, atol=tolerance)
    for gradient, exact in zip(mine, gradients, strict=True):
        assert apart(gradient, exact) < tolerance


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [64, 128, 768])
def test_half_precision_costs_what_rounding_costs(dtype: torch.dtype, dim: int) -> None:
    inputs = views("clustered 0.5", 1000, dim, dtype)
    losses, gradients = measure(
        two_views, inputs, lambda b, t: dense_loss(b, t, lambda _: InfoNCE()), torch.float64
    )
    ours, mine = measure(
        two_views, inputs, lambda b, t: fused_loss(b, t, lambda _: InfoNCE()), dtype
    )
    torch.testing.assert_close(ours, losses, rtol=1e-5, atol=1e-4)
    for gradient, exact in zip(mine, gradients, strict=True):
        assert apart(gradient, exact) < 2 * torch.finfo(dtype).eps


@pytest.mark.parametrize("objective", [BAYESIAN, Bayesian(0.8, 0.7, 0.2, "upper")])
@pytest.mark.parametrize("bins", [64, 256, 1024])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weighted_losses_equal_their_emulation(
    objective: Bayesian, bins: int, dtype: torch.dtype
) -> None:
    inputs = [dyadic(500, 32, 0), dyadic(500, 32, 1)]
    losses, gradients = measure_on_cpu(inputs, lambda b, t: emulate(b, t, objective, bins))
    ours, mine = measure(
        two_views, inputs, lambda b, t: fused_loss(b, t, lambda _: objective, bins=bins), dtype
    )
    # Where a similarity falls on the edge of a bin, rounding may put it into the next one.
    torch.testing.assert_close(ours.cpu(), losses, rtol=1e-4, atol=1e-4)
    tolerance = 1e-3 if dtype == torch.float32 else 8e-3
    for gradient, exact in zip(mine, gradients, strict=True):
        assert apart(gradient.cpu(), exact) < tolerance


def measure_on_cpu(
    inputs: list[Tensor], loss: Callable[[ContrastiveBatch, Tensor], Tensor]
) -> tuple[Tensor, list[Tensor]]:
    leaves = [tensor.detach().cpu().double().requires_grad_() for tensor in inputs]
    temperature = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    losses = loss(two_views(*leaves), temperature)
    return losses.detach(), list(torch.autograd.grad(losses.mean(), [*leaves, temperature]))


@pytest.mark.parametrize("kind", ["random", "clustered 0.5", "clustered 0.2", "collapsed 0.1"])
@pytest.mark.parametrize("precision", ["ieee", "tf32x3"])
def test_256_bins_come_within_1e_4_and_2e_3(kind: str, precision: Precision) -> None:
    exact_views = [view.to(DEVICE).requires_grad_() for view in embeddings(kind, 1500, 128)]
    exact = dense_loss(two_views(*exact_views), 0.5, lambda _: BAYESIAN).mean()
    expected = torch.cat(torch.autograd.grad(exact, exact_views))
    ours = [view.detach().float().requires_grad_() for view in exact_views]
    loss = fused_loss(two_views(*ours), 0.5, lambda _: BAYESIAN, precision=precision).mean()
    gradient = torch.cat(torch.autograd.grad(loss, ours)).double()
    assert abs(loss.item() - exact.item()) < 1e-4
    assert apart(gradient, expected) < 2e-3


@pytest.mark.parametrize("keys", [(), (3,)], ids=["one key", "three keys"])
@pytest.mark.parametrize("objective", [InfoNCE(), BAYESIAN], ids=["info_nce", "bayesian"])
def test_groups_masks_and_extra_candidates_are_left_out(
    objective: Objective, keys: tuple[int, ...]
) -> None:
    generator = torch.Generator().manual_seed(0)
    groups = torch.randint(0, 60, (333, *keys), generator=generator).to(DEVICE)
    valid = (torch.rand(333, 433, generator=generator) < 0.7).to(DEVICE)
    valid[5] = False
    inputs = [dyadic(333, 48, 0), dyadic(333, 48, 1), dyadic(100, 48, 2)]

    def make(anchors: Tensor, positives: Tensor, extra: Tensor) -> ContrastiveBatch:
        return pairs(anchors, positives, extra=extra, groups=groups, valid=valid)

    losses, gradients = measure(
        make, inputs, lambda b, t: dense_loss(b, t, lambda _: objective), torch.float64
    )
    ours, mine = measure(
        make, inputs, lambda b, t: fused_loss(b, t, lambda _: objective, bins=1024), torch.float32
    )
    exact = isinstance(objective, InfoNCE)
    torch.testing.assert_close(ours.mean(), losses.mean(), rtol=1e-5, atol=1e-4)
    assert ours[5] == 0
    assert (mine[0][5] == 0).all()
    for gradient, right in zip(mine, gradients, strict=True):
        assert apart(gradient, right) < (1e-5 if exact else 5e-3)


def test_results_are_the_same_from_run_to_run() -> None:
    def run() -> list[Tensor]:
        leaves = [view.requires_grad_() for view in views("random", 4096, 128)]
        losses = fused_loss(two_views(*leaves), 0.1, lambda _: BAYESIAN)
        return [losses.detach(), *torch.autograd.grad(losses.mean(), leaves)]

    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second)


def test_measured_tiles_give_the_results_of_the_default_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run() -> list[Tensor]:
        leaves = [view.requires_grad_() for view in views("random", 4096, 128, torch.bfloat16)]
        losses = fused_loss(two_views(*leaves), 0.1, lambda _: BAYESIAN)
        gradients = torch.autograd.grad(losses.mean(), leaves)
        return [one.detach().float() for one in (losses, *gradients)]

    measured = run()
    assert {work.kernel for work in tuning.chosen_tiles()} == set(KERNELS)
    monkeypatch.setattr(tuning, "may_measure", lambda _: False)
    for mine, default in zip(measured, run(), strict=True):
        assert apart(mine, default) < 1e-2


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_nothing_waits_for_the_device() -> None:
    leaves = [view.requires_grad_() for view in views("random", 512, 64)]
    batch = two_views(*leaves)
    for step in range(2):  # the first compiles
        torch.cuda.set_sync_debug_mode("error" if step else "default")
        try:
            fused_loss(batch, 0.1, lambda _: BAYESIAN).mean().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")


def test_the_matrix_of_logits_is_never_held() -> None:
    leaves = [view.requires_grad_() for view in views("random", 32_768, 128)]
    batch = two_views(*leaves)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    fused_loss(batch, 0.1, lambda _: BAYESIAN, precision="tf32x3").mean().backward()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    assert extra < 2 * GIB, f"{extra / GIB:.2f} GiB"  # the logits alone would be 16
    assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in leaves)


def test_offsets_beyond_31_bits_are_right() -> None:
    rows, bins = 2**21 + 77, 1024  # more than 2^31 cells of histograms
    free, _ = torch.cuda.mem_get_info()
    if free < 60 * GIB:
        pytest.skip("needs 60 GiB of free device memory")
    generator = torch.Generator(DEVICE).manual_seed(0)
    anchors = torch.randn(rows, 16, device=DEVICE, generator=generator)
    columns = torch.randn(200, 16, device=DEVICE, generator=generator)
    losses = fused_loss(drawn(anchors, anchors, columns), 1.0, lambda _: BAYESIAN, bins=bins)
    for part in (slice(0, 100), slice(rows - 100, rows)):
        batch = drawn(anchors[part], anchors[part], columns)
        alone = fused_loss(batch, 1.0, lambda _: BAYESIAN, bins=bins)
        torch.testing.assert_close(losses[part], alone, rtol=1e-5, atol=1e-5)
