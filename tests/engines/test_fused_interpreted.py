"""The fused kernels in Triton's interpreter, on the CPU.

Triton decides at its first import whether it interprets, so these tests need a process of their
own: ``test_fused.py`` runs this file in one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch
from engines.test_fused_emulation import embeddings, emulate
from engines.test_objectives_as_data import PLAIN, RANKED
from torch import Tensor

from bayescl.engines import CandidateRule, ContrastiveBatch, dense_loss
from bayescl.engines._fused_tiles import Tile
from bayescl.engines.fused import fused_loss, fused_unavailable_reason
from bayescl.functional import (
    Bayesian,
    Debiased,
    Hard,
    InfoNCE,
    Objective,
)
from bayescl.losses import BayesianContrastiveLoss
from bayescl.losses.layouts import drawn, pairs, two_views

if os.environ.get("TRITON_INTERPRET") != "1" or fused_unavailable_reason() is not None:
    pytest.skip("runs under TRITON_INTERPRET=1 alone", allow_module_level=True)

EXACT: dict[str, Objective] = {
    "info_nce": InfoNCE(),
    "debiased": Debiased(0.1, -2.5),
    "hard": Hard(0.1, 0.5, -2.5),
    "unknown to the engine": PLAIN["sharpened"],
}
BAYESIAN: dict[str, Bayesian] = {
    "mid": Bayesian(0.9, 0.7, 0.1),
    "upper": Bayesian(0.8, 0.5, 0.2, "upper"),
    "perfect": Bayesian(1.0, 0.5, 0.1, "upper"),  # the weight of the largest logit is 0
}
Loss = Callable[[ContrastiveBatch, Tensor], Tensor]


def dyadic(count: int, dim: int, seed: int) -> Tensor:
    """Coordinates in steps of 1/16: inner products are exact in float32, whatever their order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-7, 8, (count, dim), generator=generator).double() / 16


def layout(name: str) -> tuple[Callable[..., ContrastiveBatch], tuple[Tensor, ...]]:
    """How a batch is made of its embeddings, and the embeddings."""
    generator = torch.Generator().manual_seed(5)
    if name == "two views":
        return two_views, (dyadic(67, 20, 0), dyadic(67, 20, 1))
    if name == "groups":
        groups = torch.randint(0, 40, (50,), generator=generator)
        return lambda a, b: two_views(a, b, groups=groups), (dyadic(50, 16, 0), dyadic(50, 16, 1))
    if name == "several groups":
        mine, theirs = (torch.randint(0, 9, (rows, 2), generator=generator) for rows in (21, 80))
        return (
            lambda a, p, c: drawn(a, p, c, groups=mine, candidate_groups=theirs),
            (dyadic(21, 9, 0), dyadic(21, 9, 1), dyadic(80, 9, 2)),
        )
    if name == "extra and mask":
        valid = torch.rand(70, 101, generator=generator) < 0.6
        valid[3] = False
        return (
            lambda a, p, extra: pairs(a, p, extra=extra, valid=valid),
            (dyadic(70, 9, 0), dyadic(70, 9, 1), dyadic(31, 9, 2)),
        )
    if name == "drawn":
        return drawn, (dyadic(5, 33, 0), dyadic(5, 33, 1), dyadic(300, 33, 2))
    assert name == "wide"
    return pairs, (dyadic(19, 300, 0) / 4, dyadic(19, 300, 1) / 4)


LAYOUTS = [
    "two views",
    "groups",
    "several groups",
    "extra and mask",
    "drawn",
    "wide",
]


def measure(
    make: Callable[..., ContrastiveBatch],
    inputs: tuple[Tensor, ...],
    loss: Loss,
    dtype: torch.dtype,
) -> tuple[Tensor, list[Tensor]]:
    """Losses, and gradients of a weighted sum of them for all inputs and the temperature."""
    leaves = [tensor.to(dtype).requires_grad_() for tensor in inputs]
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    temperature = torch.tensor(0.4, dtype=precise, requires_grad=True)
    losses = loss(make(*leaves), temperature)
    upstream = torch.rand(len(losses), generator=torch.Generator().manual_seed(9)) - 0.2
    gradients = torch.autograd.grad(losses, [*leaves, temperature], upstream.to(losses.dtype))
    return losses.detach(), list(gradients)


def assert_near(
    result: tuple[Tensor, list[Tensor]], expected: tuple[Tensor, list[Tensor]], tolerance: float
) -> None:
    torch.testing.assert_close(result[0].double(), expected[0], rtol=tolerance, atol=tolerance)
    for mine, exact in zip(result[1], expected[1], strict=True):
        assert mine.isfinite().all()
        assert (mine.double() - exact).norm() <= tolerance * exact.norm()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("objective", list(EXACT))
def test_unweighted_losses_equal_the_dense_engine(name: str, objective: str) -> None:
    make, inputs = layout(name)
    bound = EXACT[objective]
    expected = measure(make, inputs, lambda b, t: dense_loss(b, t, lambda _: bound), torch.float64)
    result = measure(make, inputs, lambda b, t: fused_loss(b, t, lambda _: bound), torch.float32)
    assert result[0].dtype == torch.float32
    assert_near(result, expected, 1e-5)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("objective", list(BAYESIAN))
def test_weighted_losses_equal_their_emulation(name: str, objective: str) -> None:
    make, inputs = layout(name)
    bound = BAYESIAN[objective]
    expected = measure(make, inputs, lambda b, t: emulate(b, t, bound, 128), torch.float64)
    result = measure(
        make, inputs, lambda b, t: fused_loss(b, t, lambda _: bound, bins=128), torch.float32
    )
    # Where a similarity falls on the edge of a bin, rounding may put it into the next one.
    assert_near(result, expected, 1e-4)


@pytest.mark.parametrize("name", ["spread", *RANKED])
def test_an_objective_that_is_data_needs_nothing_here(name: str) -> None:
    bound = {**PLAIN, **RANKED}[name]
    views = embeddings("random", batch=60, dim=16)
    expected = measure(
        two_views, views, lambda b, t: dense_loss(b, t, lambda _: bound), torch.float64
    )
    result = measure(
        two_views, views, lambda b, t: fused_loss(b, t, lambda _: bound, bins=1024), torch.float32
    )
    assert_near(result, expected, 1e-5 if name in PLAIN else 2e-3)


@pytest.mark.parametrize("kind", ["random", "clustered 0.5", "collapsed 0.1"])
def test_256_bins_come_within_1e_4_and_2e_3_of_the_dense_engine(kind: str) -> None:
    views = embeddings(kind, batch=100, dim=32)
    bound = Bayesian(0.9, 0.5, 0.1)
    expected = measure(
        two_views, views, lambda b, t: dense_loss(b, t, lambda _: bound), torch.float64
    )
    result = measure(
        two_views, views, lambda b, t: fused_loss(b, t, lambda _: bound), torch.float32
    )
    assert abs(result[0].double().mean() - expected[0].mean()) < 1e-4
    for mine, exact in zip(result[1][:2], expected[1][:2], strict=True):
        assert (mine.double() - exact).norm() < 2e-3 * exact.norm()


@pytest.mark.parametrize("bound", [EXACT["info_nce"], BAYESIAN["mid"]])
def test_float16_costs_what_rounding_costs(bound: Objective) -> None:
    # bfloat16 is for the tests on a GPU: the interpreter multiplies its bits as integers.
    dtype = torch.float16
    make, inputs = layout("two views")

    def exact(batch: ContrastiveBatch, temperature: Tensor) -> Tensor:
        if isinstance(bound, Bayesian):
            return emulate(batch, temperature, bound, 256)
        return dense_loss(batch, temperature, lambda _: bound)

    expected = measure(make, inputs, exact, torch.float64)
    losses, gradients = measure(make, inputs, lambda b, t: fused_loss(b, t, lambda _: bound), dtype)
    # The embeddings are exact in half precision: only their gradients are rounded.
    torch.testing.assert_close(losses.double(), expected[0], rtol=1e-5, atol=1e-4)
    step = torch.finfo(dtype).eps
    for mine, right in zip(gradients, expected[1], strict=True):
        assert (mine.double() - right).norm() <= step * right.norm()


def test_half_precision_reaches_the_kernels_through_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def noted(batch: ContrastiveBatch, *arguments, **options) -> Tensor:
        seen.append(batch.anchors.dtype)
        return fused_loss(batch, *arguments, **options)

    monkeypatch.setattr("bayescl.engines.select.fused_loss", noted)
    found = []
    for dtype in (torch.float16, torch.float32):
        views = [(dyadic(30, 16, seed)).to(dtype).requires_grad_() for seed in (0, 1)]
        value = BayesianContrastiveLoss(engine="fused")(*views)
        gradients = torch.autograd.grad(value, views)
        assert value.dtype == torch.float32
        assert all(one.dtype == dtype for one in gradients)
        found.append([value.detach(), *(one.float() for one in gradients)])
    assert seen == [torch.float16, torch.float32]
    for half, single in zip(*found, strict=True):
        assert (half - single).norm() < 5e-3 * single.norm()


@pytest.mark.parametrize("bound", [*EXACT.values(), *BAYESIAN.values()])
def test_degenerate_rows_are_finite_and_right(bound: Objective) -> None:
    anchors = dyadic(4, 5, 0)
    columns = dyadic(40, 5, 1)
    columns[:20] = columns[0]
    valid = torch.zeros(4, 40, dtype=torch.bool)
    valid[0, :20] = True  # all logits equal
    valid[1, 33] = True  # a single candidate
    valid[3, 20:] = True  # and none for row 2

    def make(first: Tensor, second: Tensor, third: Tensor) -> ContrastiveBatch:
        return drawn(first, second, third, valid=valid)

    inputs = (anchors, dyadic(4, 5, 2), columns)
    expected = measure(make, inputs, lambda b, t: dense_loss(b, t, lambda _: bound), torch.float64)
    losses, gradients = measure(
        make, inputs, lambda b, t: fused_loss(b, t, lambda _: bound, bins=1024), torch.float32
    )
    torch.testing.assert_close(losses[:3].double(), expected[0][:3], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradients[0][:3].double(), expected[1][0][:3], rtol=1e-4, atol=1e-5)
    assert losses[2] == 0
    assert (gradients[0][2] == 0).all()
    assert all(gradient.isfinite().all() for gradient in (losses, *gradients))


def test_the_widest_embeddings_and_the_narrowest() -> None:
    for dim in (1, 1024):
        inputs = (dyadic(3, dim, 0) / dim**0.5, dyadic(3, dim, 1) / dim**0.5)
        expected = measure(
            pairs, inputs, lambda b, t: dense_loss(b, t, lambda _: InfoNCE()), torch.float64
        )
        result = measure(
            pairs, inputs, lambda b, t: fused_loss(b, t, lambda _: InfoNCE()), torch.float32
        )
        assert_near(result, expected, 1e-5)


def test_huge_and_tiny_logits_stay_finite() -> None:
    for size in (1e-18, 1e3):
        views = [(dyadic(9, 4, seed) * size).float().requires_grad_() for seed in (0, 1)]
        losses = fused_loss(two_views(*views), 0.1, lambda _: BAYESIAN["mid"])
        losses.sum().backward()
        assert losses.isfinite().all()
        assert all(view.grad.isfinite().all() for view in views)


def test_nan_is_not_hidden() -> None:
    anchors = dyadic(4, 5, 0).float()
    anchors[1, 2] = torch.nan
    for bound in (InfoNCE(), BAYESIAN["mid"]):
        batch = drawn(anchors, dyadic(4, 5, 1).float(), dyadic(6, 5, 2).float())
        losses = fused_loss(batch, 0.5, lambda _, bound=bound: bound)
        assert losses[1].isnan()
        assert losses[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("wanted", ["anchors", "candidates", "temperature"])
def test_only_what_needs_a_gradient_receives_one(wanted: str) -> None:
    leaves = {
        "anchors": dyadic(6, 5, 0).float(),
        "candidates": dyadic(8, 5, 2).float(),
        "temperature": torch.tensor(0.3),
    }
    leaves[wanted].requires_grad_()
    batch = drawn(leaves["anchors"], dyadic(6, 5, 1).float(), leaves["candidates"])
    fused_loss(batch, leaves["temperature"], lambda _: BAYESIAN["mid"]).sum().backward()
    alone = leaves[wanted].grad
    assert alone is not None

    full = [leaves[name].detach().requires_grad_() for name in leaves]
    batch = drawn(full[0], dyadic(6, 5, 1).float(), full[1])
    fused_loss(batch, full[2], lambda _: BAYESIAN["mid"]).sum().backward()
    torch.testing.assert_close(alone, full[list(leaves).index(wanted)].grad)


def test_no_gradient_at_all_is_fine() -> None:
    batch = two_views(dyadic(4, 5, 0).float(), dyadic(4, 5, 1).float())
    assert not fused_loss(batch, 0.5, lambda _: BAYESIAN["mid"]).requires_grad


def test_strided_embeddings_are_read_right() -> None:
    views = [dyadic(5, 12, seed).float().T.contiguous().T for seed in (0, 1)]
    assert not views[0].is_contiguous()
    batch = ContrastiveBatch(views[0], views[1], views[1][::2], CandidateRule())
    dense = dense_loss(batch, 0.5, lambda _: InfoNCE())
    torch.testing.assert_close(fused_loss(batch, 0.5, lambda _: InfoNCE()), dense)


def test_a_second_differentiation_is_refused() -> None:
    views = [dyadic(4, 5, seed).float().requires_grad_() for seed in (0, 1)]
    losses = fused_loss(two_views(*views), 0.5, lambda _: BAYESIAN["mid"])
    (gradient,) = torch.autograd.grad(losses.sum(), views[0], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_gradients_do_not_depend_on_the_size_of_the_upstream_gradient() -> None:
    views = [dyadic(20, 8, seed).half().requires_grad_() for seed in (0, 1)]
    results = []
    for factor in (1.0, 2.0**-10):
        losses = fused_loss(two_views(*views), 0.5, lambda _: InfoNCE())
        results.append(torch.autograd.grad(losses.sum() * factor, views)[0].float() / factor)
    torch.testing.assert_close(*results, rtol=2e-3, atol=1e-3)


def test_counting_in_memory_equals_counting_in_shared_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bayescl.engines import _fused_launch as launch

    batch = two_views(dyadic(40, 8, 0).float(), dyadic(40, 8, 1).float())
    results = []
    for shared in (True, False):
        monkeypatch.setattr(launch, "counts_in_shared_memory", lambda shared=shared: shared)
        results.append(fused_loss(batch, 0.5, lambda _: BAYESIAN["mid"], bins=64))
    assert torch.equal(*results)


def test_one_share_of_the_loop_equals_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from bayescl.engines import _fused_launch as launch

    make, inputs = layout("two views")
    results = []
    for programs in (1, 16):
        monkeypatch.setattr(launch, "_programs", lambda _, programs=programs: programs)
        results.append(
            measure(make, inputs, lambda b, t: fused_loss(b, t, lambda _: InfoNCE()), torch.float32)
        )
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("bound", "dtype"), [(EXACT["info_nce"], torch.float32), (BAYESIAN["mid"], torch.float16)]
)
def test_every_tile_gives_the_same_losses_and_gradients(
    bound: Objective, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bayescl.engines import _fused_tuning as tuning

    inputs = (dyadic(36, 20, 0), dyadic(36, 20, 1))

    def result() -> tuple[Tensor, list[Tensor]]:
        def loss(batch: ContrastiveBatch, temperature: Tensor) -> Tensor:
            return fused_loss(batch, temperature, lambda _: bound, bins=128)

        return measure(two_views, inputs, loss, dtype)

    expected, kernels = result(), set[str]()
    monkeypatch.setattr(tuning, "size_class", lambda _: 0)
    monkeypatch.setattr(tuning, "may_measure", lambda _: True)
    for place in range(1, 4):

        def chosen(work: tuning.Work, tiles: tuple[Tile, ...], _: object, place=place) -> Tile:
            kernels.add(work.kernel)
            return tiles[place % len(tiles)]

        monkeypatch.setattr(tuning, "fastest_tile", chosen)
        losses, gradients = result()
        torch.testing.assert_close(losses, expected[0], rtol=1e-5, atol=1e-5)
        for mine, other in zip(gradients, expected[1], strict=True):
            assert (mine.float() - other.float()).norm() <= 2e-3 * other.float().norm()
    assert kernels >= {"log_sum", "anchor_gradient", "candidate_gradient"}


def test_a_launch_measures_its_tiles_once_and_takes_the_fastest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bayescl.engines import _fused_launch as launch
    from bayescl.engines import _fused_tuning as tuning

    launches = []

    def milliseconds(once: Callable[[], object]) -> float:
        once()
        launches.append(once)
        return 1.0 / len(launches)  # the last is the fastest

    monkeypatch.setattr(tuning, "size_class", lambda _: 0)
    monkeypatch.setattr(tuning, "may_measure", lambda _: True)
    monkeypatch.setattr(tuning, "milliseconds_on_device", milliseconds)
    monkeypatch.setattr(tuning, "_chosen", {})
    batch = two_views(dyadic(20, 8, 0).float(), dyadic(20, 8, 1).float())
    problem = launch.Problem(batch.anchors, batch.candidates, batch.rule, "ieee")
    low, top = launch.similarity_ranges(problem)
    similarity = batch.anchors @ batch.candidates.T
    mask = batch.mask()
    assert torch.equal(low, similarity.masked_fill(~mask, torch.inf).amin(1))
    assert torch.equal(top, similarity.masked_fill(~mask, -torch.inf).amax(1))
    tiles = problem.tiles("range", 0)
    assert len(launches) == len(tiles) > 1
    launch.similarity_ranges(problem)
    assert len(launches) == len(tiles)
    assert list(tuning.chosen_tiles().values()) == [tiles[-1]]
