"""The fused kernels against the dense engine in float64: interpreted on the CPU, or on a GPU.

Triton decides at its first import whether it interprets, so ``test_fused.py`` runs this file in a
process of its own. On a GPU, batches are larger and further claims are tested.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import pytest
import torch
from engines.test_histogram import embeddings
from engines.test_objectives_as_data import PLAIN, RANKED
from torch import Tensor

from bayescl.engines import CandidateRule, ContrastiveBatch, dense_loss
from bayescl.engines.fused import fused_loss, fused_unavailable_reason
from bayescl.engines.fused.tiles import Precision
from bayescl.functional import (
    Bayesian,
    Debiased,
    Hard,
    InfoNCE,
    Objective,
    candidate_logits,
    pair_logits,
    unit_vectors,
)
from bayescl.functional.histogram import bin_indices, bin_means, inverse_widths
from bayescl.functional.log_space import contrast, masked_logsumexp
from bayescl.losses.layouts import drawn, pairs, two_views

INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE, LARGER = ("cpu", 1) if INTERPRETING else ("cuda", 8)
if fused_unavailable_reason() is not None:
    pytest.skip("needs a CUDA device, or TRITON_INTERPRET=1", allow_module_level=True)
launch = pytest.importorskip("bayescl.engines.fused.launch")
if not INTERPRETING:
    # Triton's own warnings, not ours.
    pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default::DeprecationWarning")]
# The interpreter multiplies the bits of bfloat16 as integers.
HALVES = [torch.float16] if INTERPRETING else [torch.float16, torch.bfloat16]
PRECISIONS: list[Precision] = ["ieee"] if INTERPRETING else ["ieee", "tf32x3"]

UNKNOWN = PLAIN["sharpened"]  # to all engines
EXACT: list[Objective] = [InfoNCE(), Debiased(0.1, -2.5), Hard(0.1, -2.5, 0.5), UNKNOWN]
BAYESIAN = Bayesian(0.9, 0.7, 0.1)
WEIGHTED = [
    BAYESIAN,
    Bayesian(0.8, 0.5, 0.2, "upper"),
    Bayesian(1.0, 0.5, 0.1, "upper"),  # the weight of the largest logit is 0
]
Make = Callable[..., ContrastiveBatch]
Loss = Callable[[ContrastiveBatch, Tensor], Tensor]
Measured = tuple[Tensor, list[Tensor]]


def dyadic(count: int, dim: int, seed: int) -> Tensor:
    """Coordinates in steps of 1/16: inner products are exact in float32, whatever their order."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(-7, 8, (count, dim), generator=generator).double() / 16).to(DEVICE)


def unit_views(kind: str, batch: int, dim: int) -> tuple[Tensor, ...]:
    return tuple(unit_vectors(view.detach()) for view in embeddings(kind, batch, dim))


def three(anchors: int, candidates: int, dim: int) -> tuple[Tensor, ...]:
    return dyadic(anchors, dim, 0), dyadic(anchors, dim, 1), dyadic(candidates, dim, 2)


def layout(name: str) -> tuple[Make, tuple[Tensor, ...]]:
    """How a batch is made of its embeddings, and the embeddings."""
    generator, many = torch.Generator().manual_seed(5), LARGER
    if name == "two views":
        return two_views, three(67 * many, 0, 20)[:2]
    if name == "several groups":
        mine, theirs = (
            torch.randint(0, 9, (rows * many, 2), generator=generator).to(DEVICE)
            for rows in (21, 80)
        )
        return (
            lambda a, p, c: drawn(a, p, c, groups=mine, candidate_groups=theirs),
            three(21 * many, 80 * many, 9),
        )
    if name == "extra, groups and mask":
        valid = (torch.rand(70 * many, 101 * many, generator=generator) < 0.6).to(DEVICE)
        valid[3] = False
        groups = torch.arange(70 * many, device=DEVICE) // 2
        return (
            lambda a, p, extra: pairs(a, p, extra=extra, groups=groups, valid=valid),
            three(70 * many, 31 * many, 9),
        )
    if name == "drawn":
        return drawn, three(5, 300 * many, 33)
    assert name == "wide"
    return pairs, tuple(side / 4 for side in three(19, 0, 300)[:2])


LAYOUTS = ["two views", "several groups", "extra, groups and mask", "drawn", "wide"]


def measure(
    make: Make, inputs: tuple[Tensor, ...], loss: Loss, dtype: torch.dtype, size: float = 1.0
) -> Measured:
    """Losses, and gradients of a weighted sum of them for all inputs and the temperature."""
    leaves = [tensor.to(DEVICE, dtype).requires_grad_() for tensor in inputs]
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    temperature = torch.tensor(0.4, dtype=precise, device=DEVICE, requires_grad=True)
    losses = loss(make(*leaves), temperature)
    upstream = (
        torch.rand(len(losses), generator=torch.Generator().manual_seed(9)) * size - 0.2 * size
    )
    gradients = torch.autograd.grad(
        losses, [*leaves, temperature], upstream.to(DEVICE, losses.dtype)
    )
    return losses.detach(), list(gradients)


def dense(objective: Objective) -> Loss:
    return lambda batch, temperature: dense_loss(batch, temperature, lambda _: objective)


def emulate(
    batch: ContrastiveBatch, temperature: float | Tensor, objective: Bayesian, bins: int
) -> Tensor:
    """What the kernels compute, with the whole matrix at hand and autograd for gradients."""
    similarity = candidate_logits(batch.anchors, batch.candidates, 1.0)
    mask = batch.mask()
    mask = torch.ones_like(similarity, dtype=torch.bool) if mask is None else mask
    still = similarity.detach()
    low = still.masked_fill(~mask, torch.inf).amin(1)
    top = still.masked_fill(~mask, -torch.inf).amax(1)
    inverse = inverse_widths(low, top)
    top = torch.where(mask.any(1), top, 0)
    index = bin_indices(still, top, inverse, bins)
    counts = mask.new_zeros(len(mask), bins, dtype=torch.int32).scatter_add_(1, index, mask.int())
    upper = objective.ranks == "upper"
    table = bin_means(counts, inverse, objective.weights_of_cdf, upper=upper)
    log_weights = table.gather(1, index).log()
    counted = mask & (log_weights > -torch.inf)
    logits = similarity / temperature + log_weights.to(similarity.dtype)
    positive = pair_logits(batch.anchors, batch.positives, temperature)
    return contrast(positive, masked_logsumexp(logits, counted))


def emulated(objective: Bayesian, bins: int) -> Loss:
    return lambda batch, temperature: emulate(batch, temperature, objective, bins)


def fused(objective: Objective, **options) -> Loss:
    return lambda batch, temperature: fused_loss(batch, temperature, lambda _: objective, **options)


def assert_near(
    result: Measured, expected: Measured, tolerance: float, of_gradients: float | None = None
) -> None:
    assert result[0].dtype == torch.float32
    torch.testing.assert_close(result[0].double(), expected[0], rtol=tolerance, atol=tolerance)
    for mine, exact in zip(result[1], expected[1], strict=True):
        assert mine.isfinite().all()
        assert (mine.double() - exact).norm() <= (of_gradients or tolerance) * exact.norm()


@pytest.mark.parametrize("name", LAYOUTS)
def test_losses_equal_the_dense_engine_or_with_weights_their_emulation(name: str) -> None:
    make, inputs = layout(name)
    for objective in EXACT:
        expected = measure(make, inputs, dense(objective), torch.float64)
        for precision in PRECISIONS:
            result = measure(make, inputs, fused(objective, precision=precision), torch.float32)
            assert_near(result, expected, 1e-5 if precision == "ieee" else 3e-5)
    for objective in WEIGHTED:
        expected = measure(make, inputs, emulated(objective, 128), torch.float64)
        result = measure(make, inputs, fused(objective, bins=128), torch.float32)
        # Where a similarity falls on the edge of a bin, rounding may put it into the next one.
        assert_near(result, expected, 1e-4, 1e-4 if INTERPRETING else 1e-3)


def test_an_objective_that_is_data_needs_nothing_here() -> None:
    views = unit_views("random", 60, 16)
    for objective in [PLAIN["spread"], *RANKED.values()]:
        expected = measure(two_views, views, dense(objective), torch.float64)
        result = measure(two_views, views, fused(objective, bins=1024), torch.float32)
        assert_near(result, expected, 1e-5 if objective.ranks is None else 2e-3)


def test_256_bins_come_within_1e_4_and_2e_3_of_the_dense_engine() -> None:
    for kind in ("random", "clustered 0.5", "collapsed 0.1"):
        views = unit_views(kind, 100 * LARGER, 32)
        expected = measure(two_views, views, dense(BAYESIAN), torch.float64)
        for precision in PRECISIONS:
            how = fused(BAYESIAN, precision=precision)
            losses, (*of_views, _) = measure(two_views, views, how, torch.float32)
            assert abs(losses.double().mean() - expected[0].mean()) < 1e-4
            for mine, exact in zip(of_views, expected[1], strict=False):
                assert (mine.double() - exact).norm() < 2e-3 * exact.norm()


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_costs_what_rounding_costs(dtype: torch.dtype) -> None:
    make, inputs = layout("two views")
    for objective, exact in ((InfoNCE(), dense(InfoNCE())), (BAYESIAN, emulated(BAYESIAN, 256))):
        for size in (1.0, 2.0**-6):  # of upstream gradients
            expected = measure(make, inputs, exact, torch.float64, size)
            result = measure(make, inputs, fused(objective), dtype, size)
            # The embeddings are exact in half precision: only their gradients are rounded.
            assert_near(result, expected, 1e-4, torch.finfo(dtype).eps)


@pytest.mark.parametrize("objective", [*EXACT, *WEIGHTED])
def test_degenerate_rows_are_finite_and_right(objective: Objective) -> None:
    anchors, positives, columns = three(4, 40, 5)
    columns[:20] = columns[0].clone()
    valid = torch.zeros(4, 40, dtype=torch.bool, device=DEVICE)
    valid[0, :20] = True  # all logits equal
    valid[1, 33] = True  # a single candidate
    valid[3, 20:] = True  # and none for row 2
    make: Make = partial(drawn, valid=valid)
    inputs = (anchors, positives, columns)
    expected = measure(make, inputs, dense(objective), torch.float64)
    losses, gradients = measure(make, inputs, fused(objective, bins=1024), torch.float32)
    torch.testing.assert_close(losses[:3].double(), expected[0][:3], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients[0][:3].double(), expected[1][0][:3], rtol=1e-4, atol=1e-5)
    assert losses[2] == 0
    assert (gradients[0][2] == 0).all()
    assert all(part.isfinite().all() for part in (losses, *gradients))


def test_extreme_dimensions_huge_and_tiny_logits_and_nan() -> None:
    for dim in (1, 1024):
        views = tuple(view / dim**0.5 for view in three(3, 0, dim)[:2])
        expected = measure(pairs, views, dense(InfoNCE()), torch.float64)
        assert_near(measure(pairs, views, fused(InfoNCE()), torch.float32), expected, 1e-5)
    for size in (1e-18, 1e3):
        views = tuple(view * size for view in three(9, 0, 4)[:2])
        losses, gradients = measure(two_views, views, fused(BAYESIAN), torch.float32)
        assert all(part.isfinite().all() for part in (losses, *gradients))
    anchors, positives, candidates = (part.float() for part in three(4, 6, 5))
    anchors[1, 2] = torch.nan
    for objective in (InfoNCE(), BAYESIAN):
        losses = fused(objective)(drawn(anchors, positives, candidates), torch.tensor(0.5))
        assert losses[1].isnan()
        assert losses[[0, 2, 3]].isfinite().all()


def test_only_what_needs_a_gradient_receives_one() -> None:
    parts = [*(part.float() for part in three(6, 8, 5)), torch.tensor(0.3, device=DEVICE)]

    def gradients(*wanted: int) -> list[Tensor | None]:
        leaves = [part.clone().requires_grad_(place in wanted) for place, part in enumerate(parts)]
        losses = fused(BAYESIAN)(drawn(*leaves[:3]), leaves[3])
        assert losses.requires_grad == bool(wanted)
        if wanted:
            losses.sum().backward()
        return [leaf.grad for leaf in leaves]

    together = gradients(0, 1, 2, 3)
    for place in range(4):
        alone = gradients(place)
        torch.testing.assert_close(alone.pop(place), together[place])
        assert alone == [None] * 3
    assert gradients() == [None] * 4


def test_strided_embeddings_are_read_right_and_a_second_differentiation_is_refused() -> None:
    views = [dyadic(5, 12, seed).float().T.contiguous().T.requires_grad_() for seed in (0, 1)]
    batch = ContrastiveBatch(views[0], views[1], views[1][::2], CandidateRule())
    temperature = torch.tensor(0.5, device=DEVICE)
    ours, right = (engine(InfoNCE())(batch, temperature) for engine in (fused, dense))
    torch.testing.assert_close(ours, right)
    (gradient,) = torch.autograd.grad(ours.sum(), views[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_neither_shares_nor_the_place_of_counters_change_the_result(monkeypatch) -> None:
    make, inputs = layout("two views")
    results = []
    for programs, shared in ((1, True), (16, True), (16, False)):
        monkeypatch.setattr(launch, "_programs", lambda _, programs=programs: programs)
        monkeypatch.setattr(launch, "counts_in_shared_memory", lambda shared=shared: shared)
        results.append(measure(make, inputs, fused(BAYESIAN, bins=64), torch.float32))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(results[1], results[2], rtol=0, atol=0)


@pytest.mark.gpu
def test_results_repeat() -> None:
    views = [view.to(DEVICE, torch.float32) for view in unit_views("random", 4096, 128)]
    first, second = (measure(two_views, views, fused(BAYESIAN), torch.float32) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert all(map(torch.equal, first[1], second[1]))


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_nothing_waits_for_the_device_and_the_matrix_of_logits_is_never_held() -> None:
    for batch, mode in ((512, "default"), (512, "error"), (32_768, "default")):
        views = [
            view.to(DEVICE, torch.float32).requires_grad_()
            for view in unit_views("random", batch, 64)
        ]
        whole = two_views(*views)
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.set_sync_debug_mode(mode)
        try:
            losses = fused_loss(whole, 0.1, lambda _: BAYESIAN, precision="tf32x3")
            losses.mean().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.cuda.max_memory_allocated() - before < 2**31  # the logits alone: 16 GiB


@pytest.mark.gpu
def test_offsets_beyond_31_bits_are_right() -> None:
    rows, bins = 2**21 + 77, 1024  # more than 2^31 cells of histograms
    if torch.cuda.mem_get_info()[0] < 60 * 2**30:
        pytest.skip("needs 60 GiB of free device memory")
    generator = torch.Generator(DEVICE).manual_seed(0)
    anchors = torch.randn(rows, 16, device=DEVICE, generator=generator)
    columns = torch.randn(200, 16, device=DEVICE, generator=generator)
    losses = fused_loss(drawn(anchors, anchors, columns), 1.0, lambda _: BAYESIAN, bins=bins)
    for part in (slice(0, 100), slice(rows - 100, rows)):
        batch = drawn(anchors[part], anchors[part], columns)
        alone = fused_loss(batch, 1.0, lambda _: BAYESIAN, bins=bins)
        torch.testing.assert_close(losses[part], alone, rtol=1e-5, atol=1e-5)
