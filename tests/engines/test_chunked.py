"""The chunked engine is the dense engine, computed a few anchors at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import bayescl

MAKERS: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": partial(bayescl.DebiasedContrastiveLoss, tau_plus=0.1),
    "debiased, floored": partial(bayescl.DebiasedContrastiveLoss, tau_plus=0.7),
    "hard": partial(bayescl.HardContrastiveLoss, tau_plus=0.1, concentration=0.7),
    "bayesian": partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.7, tau_plus=0.1),
    "bayesian, perfect": partial(
        bayescl.BayesianContrastiveLoss, alpha=1.0, beta=0.5, tau_plus=0.1, ranks="upper"
    ),
}
names = pytest.mark.parametrize("name", list(MAKERS))
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)]
)
Call = Callable[[bayescl.ContrastiveLoss, list[Tensor]], Tensor]


def embeddings(*shapes: tuple[int, ...], dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def mask(*shape: int) -> Tensor:
    valid = torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.8
    valid[1] = False
    return valid


LAYOUTS: dict[str, tuple[list[tuple[int, ...]], Call]] = {
    "two views": ([(13, 7)] * 2, lambda loss, x: loss(*x)),
    "two views, groups and mask": (
        [(13, 7)] * 2,
        lambda loss, x: loss(*x, groups=torch.arange(13) // 3, valid=mask(26, 26)),
    ),
    "pairs with extra, both directions": (
        [(11, 7), (11, 7), (6, 7)],
        lambda loss, x: loss.in_batch(x[0], x[1], extra=x[2], both_directions=True),
    ),
    "pairs with a mask": (
        [(11, 7)] * 2,
        lambda loss, x: loss.in_batch(*x, valid=mask(11, 11)),
    ),
    "shared candidates": ([(9, 7), (9, 7), (17, 7)], lambda loss, x: loss.sampled(*x)),
    "own candidates": ([(9, 7), (9, 7), (9, 5, 7)], lambda loss, x: loss.sampled(*x)),
}


def relative_error(result: Tensor, expected: Tensor) -> float:
    scale = expected.abs().max()
    return float((result - expected).abs().max() / torch.where(scale > 0, scale, 1.0))


@names
@precisions
@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize(
    ("chunk_size", "reduction"),
    [(1, "mean"), (4, "none"), (5, "sum"), (None, "mean"), (None, "none")],
)
def test_values_and_gradients_are_those_of_the_dense_engine(
    name: str,
    layout: str,
    dtype: torch.dtype,
    tolerance: float,
    chunk_size: int | None,
    reduction: str,
) -> None:
    shapes, call = LAYOUTS[layout]
    results = []
    for engine in ("dense", "chunked"):
        inputs = embeddings(*shapes, dtype=dtype)
        temperature = bayescl.LearnableTemperature(0.3).to(dtype)
        loss = MAKERS[name](
            temperature=temperature, engine=engine, chunk_size=chunk_size, reduction=reduction
        )
        value = call(loss, inputs)
        assert loss.engine_used == engine
        upstream = torch.linspace(0.5, 2, value.numel(), dtype=dtype).reshape(value.shape)
        gradients = torch.autograd.grad(value, [*inputs, temperature.logit], upstream)
        results.append([value.detach(), *gradients])
    for result, expected in zip(results[1], results[0], strict=True):
        # The temperature's gradient sums terms of both signs: hold it to the sum's own size.
        slack = 10 if result.ndim == 0 else 1
        assert relative_error(result, expected) <= slack * tolerance


@names
@pytest.mark.parametrize("kind", ["equal", "duplicated"])
def test_ties_are_ranked_alike(name: str, kind: str) -> None:
    view_1, view_2 = (one.detach() for one in embeddings((8, 4), (8, 4), dtype=torch.float64))
    if kind == "equal":
        view_1, view_2 = torch.ones_like(view_1), torch.ones_like(view_2)
    else:
        view_1[1::2] = view_1[::2]
    view_1.requires_grad_()
    values = [MAKERS[name](engine=engine)(view_1, view_2) for engine in ("dense", "chunked")]
    gradients = [torch.autograd.grad(value, view_1)[0] for value in values]
    torch.testing.assert_close(values[1], values[0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-11, atol=1e-13)


@names
@pytest.mark.parametrize("seed", range(2))
def test_gradcheck_passes(name: str, seed: int) -> None:
    loss = MAKERS[name](engine="chunked", chunk_size=3)
    inputs = tuple(embeddings((4, 3), (4, 3), dtype=torch.float64, seed=seed))
    assert torch.autograd.gradcheck(loss, inputs)
    each = MAKERS[name](engine="chunked", chunk_size=3, reduction="none")
    assert torch.autograd.gradcheck(each, inputs)


def test_inputs_that_need_no_gradient_get_none() -> None:
    users, items, candidates = embeddings((6, 4), (6, 4), (9, 4), dtype=torch.float32)
    loss = bayescl.BayesianContrastiveLoss(engine="chunked")
    for wanted in ([users], [items], [candidates], [users, candidates]):
        inputs = [
            one.detach().requires_grad_(any(one is w for w in wanted))
            for one in (users, items, candidates)
        ]
        loss.sampled(*inputs).backward()
        dense = [one.detach().requires_grad_(one.requires_grad) for one in inputs]
        bayescl.BayesianContrastiveLoss(engine="dense").sampled(*dense).backward()
        for ours, expected in zip(inputs, dense, strict=True):
            assert (ours.grad is None) == (expected.grad is None)
            if expected.grad is not None:
                assert ours.grad is not None
                assert relative_error(ours.grad, expected.grad) < 1e-6
    with torch.no_grad():
        assert not loss.sampled(users, items, candidates).requires_grad


def test_what_inference_has_remembered_does_for_training() -> None:
    view_1, view_2 = embeddings((61, 4), (61, 4), dtype=torch.float32)
    for engine in ("chunked", "dense"):
        loss = bayescl.BayesianContrastiveLoss(engine=engine)
        with torch.inference_mode():
            expected = loss(view_1, view_2)
        value = loss(view_1, view_2)
        value.backward()
        torch.testing.assert_close(value.detach(), expected.clone())


@names
def test_an_embedding_that_is_not_finite_spoils_no_anchor_that_does_not_see_it(name: str) -> None:
    (rows,) = (one.detach() for one in embeddings((6, 4), dtype=torch.float32))
    rows[2] = torch.nan
    valid = torch.ones(6, 6, dtype=torch.bool)
    valid[:, 2] = False
    loss = MAKERS[name](engine="chunked", normalize=False, reduction="none")
    assert loss(rows[:3], rows[3:], valid=valid).isnan().tolist() == [0, 0, 1, 0, 0, 1]


def test_a_second_backward_is_refused() -> None:
    view_1, view_2 = embeddings((5, 3), (5, 3), dtype=torch.float64)
    value = bayescl.InfoNCELoss(engine="chunked")(view_1, view_2)
    gradient = torch.autograd.grad(value, view_1, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="differentiable once"):
        gradient.sum().backward()


class Held:
    """Counts the entries that autograd holds for backward at any one time."""

    def __init__(self) -> None:
        self.entries = self.peak = 0

    def pack(self, tensor: Tensor) -> Kept:
        self.entries += tensor.numel()
        self.peak = max(self.peak, self.entries)
        return Kept(tensor, self)


class Kept:
    def __init__(self, tensor: Tensor, account: Held) -> None:
        self.tensor, self.account = tensor, account

    def __del__(self) -> None:
        self.account.entries -= self.tensor.numel()


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
def test_memory_grows_linearly_with_rows_at_a_fixed_chunk_size(name: str, reduction: str) -> None:
    def footprint(batch: int) -> tuple[int, int]:
        view_1, view_2 = embeddings((batch, 4), (batch, 4), dtype=torch.float32)
        loss = MAKERS[name](engine="chunked", chunk_size=8, reduction=reduction)
        held = Held()
        with (
            LargestTensor() as largest,
            torch.autograd.graph.saved_tensors_hooks(held.pack, lambda kept: kept.tensor),
        ):
            loss(view_1, view_2).sum().backward()
        return held.peak, largest.entries

    small, large = footprint(64), footprint(256)
    assert large[0] <= 4.1 * small[0]
    assert large[1] <= 4.1 * small[1]
    # Eight rows of 512 candidates, in 64-bit integers at most.
    assert large[1] <= 8 * 512 * 2
    assert large[0] < 512 * 512 / 4


def test_the_engine_is_chosen_by_size_and_can_be_forced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    small, large = embeddings((8, 4), (150, 4), dtype=torch.float32)
    loss = bayescl.BayesianContrastiveLoss()
    loss(small, small)
    assert loss.engine_used == "dense"
    with caplog.at_level("DEBUG", logger="bayescl"):
        loss(large, large)
    assert loss.engine_used == "chunked"
    assert "chunked engine for 300 x 300 logits" in caplog.text
    forced = bayescl.BayesianContrastiveLoss(engine="dense")
    torch.testing.assert_close(forced(large, large), loss(large, large))
    assert forced.engine_used == "dense"


def test_a_chunk_of_no_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk_size must be a whole number of at least 1, got 0"):
        bayescl.InfoNCELoss(chunk_size=0)


def test_own_objectives_run_in_chunks_too() -> None:
    def squared(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
        kept = unlabeled if valid is None else unlabeled.masked_fill(~valid, 0.0)
        return (1 - positive).square() + kept.square().mean(dim=1)

    inputs = embeddings((7, 4), (7, 4), dtype=torch.float64)
    gradients = []
    for engine in ("dense", "chunked"):
        value = bayescl.ContrastiveLoss(squared, engine=engine, chunk_size=3)(*inputs)
        gradients.append(torch.autograd.grad(value, inputs))
    for ours, expected in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(ours, expected)


@names
@pytest.mark.parametrize("grad", [True, False])
def test_threads_share_chunks_out_and_change_nothing(
    name: str, grad: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = embeddings((23, 7), (23, 7), dtype=torch.float64)
    found = []
    before = torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            monkeypatch.setattr("bayescl.engines.chunked._WORTH_THREADS", 1)
            temperature = bayescl.LearnableTemperature(0.3).to(torch.float64)
            loss = MAKERS[name](temperature=temperature, engine="chunked", chunk_size=5)
            with torch.set_grad_enabled(grad):
                value = loss(*inputs)
            result = [value.detach()]
            if grad:
                result += torch.autograd.grad(value, [*inputs, temperature.logit])
            found.append(result)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_an_error_in_a_thread_is_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
        raise ValueError("no such loss")

    monkeypatch.setattr("bayescl.engines.chunked._WORTH_THREADS", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    loss = bayescl.ContrastiveLoss(refuse, engine="chunked", chunk_size=2)
    with pytest.raises(ValueError, match="no such loss"):
        loss(torch.eye(4), torch.eye(4))


@pytest.mark.parametrize("ranks", ["mid", "upper"])
@pytest.mark.parametrize(("anchors", "tolerance"), [(30, 1e-6), (400, 1e-5)])
def test_runs_of_ties_have_the_weights_of_counted_ranks(
    anchors: int, tolerance: float, ranks: str
) -> None:
    # Embeddings on a coarse grid: rows full of runs of equal logits, of every length.
    generator = torch.Generator().manual_seed(3)
    views = [
        torch.randint(-1, 2, (anchors, 3), generator=generator).float().requires_grad_()
        for _ in range(2)
    ]
    found = []
    for engine in ("dense", "chunked"):
        loss = bayescl.BayesianContrastiveLoss(
            alpha=0.9, beta=0.8, ranks=ranks, normalize=False, engine=engine, chunk_size=13
        )
        value = loss(*views)
        found.append([value.detach(), *torch.autograd.grad(value, views)])
    for ours, expected in zip(found[1], found[0], strict=True):
        assert relative_error(ours, expected) < tolerance


@pytest.mark.parametrize("ranks", ["mid", "upper"])
def test_rows_sorted_a_second_time_count_their_ties_once(ranks: str) -> None:
    for seed in range(20):
        view_1 = torch.randn(5, 33, generator=torch.Generator().manual_seed(seed))
        view_2 = view_1[:1].expand(5, 33)  # a view that has collapsed: all ties
        settings = {"ranks": ranks, "reduction": "none"}
        chunked = bayescl.BayesianContrastiveLoss(engine="chunked", chunk_size=4, **settings)
        exact = bayescl.BayesianContrastiveLoss(engine="dense", **settings)
        torch.testing.assert_close(chunked(view_1, view_2), exact(view_1, view_2))
