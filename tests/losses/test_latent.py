"""The latent-class loss: InfoNCE until classes are believed, and the same in every engine."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import latent as reference
from torch import Tensor, nn

import bayescl
from bayescl import LatentClassContrastiveLoss
from bayescl import functional as F

DIM, CLASSES = 8, 4
Call = Callable[[bayescl.ContrastiveLoss, list[Tensor]], Tensor]


def make(**settings: object) -> LatentClassContrastiveLoss:
    few = {"num_classes": CLASSES, "memory_size": 64, "refit_every": 2, "temperature": 0.5}
    return LatentClassContrastiveLoss(**few | settings)


def classes(*counts: int, seed: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Items about one axis per class; row by row each tensor holds another view of the same."""
    generator = torch.Generator().manual_seed(seed)

    def noise() -> Tensor:
        return torch.randn(max(counts), DIM, generator=generator, dtype=torch.float64)

    labels = torch.randint(0, CLASSES, (max(counts),), generator=generator)
    items = torch.eye(DIM, dtype=torch.float64)[labels] + 0.2 * noise()
    return [(items + 0.1 * noise())[:count].to(dtype).requires_grad_() for count in counts]


def train(loss: LatentClassContrastiveLoss, steps: int = 8, start: int = 0) -> list[Tensor]:
    return [loss(*classes(16, 16, seed=start + step)).detach() for step in range(steps)]


@cache
def trained_state() -> dict[str, object]:
    loss = make()
    train(loss)
    assert loss.trust > 0.3  # else what follows would only see InfoNCE
    return loss.memory.get_extra_state()


def fitted(**settings: object) -> LatentClassContrastiveLoss:
    loss = make(**settings)
    loss.memory.set_extra_state(trained_state())
    return loss


def info_nce(loss: LatentClassContrastiveLoss) -> bayescl.InfoNCELoss:
    return bayescl.InfoNCELoss(temperature=loss.temperature, reduction=loss.reduction)


def state_of(loss: LatentClassContrastiveLoss) -> dict[str, object]:
    return copy.deepcopy(loss.memory.get_extra_state())


def assert_same_state(one: dict[str, object], other: dict[str, object]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, Tensor):
            assert torch.equal(value, other[name]), name
        else:
            assert value == other[name], name


def mask(*shape: int) -> Tensor:
    valid = torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.8
    valid[1] = False
    return valid


LABELS = torch.arange(12) // 3
KEYS = torch.stack([LABELS, torch.arange(12) % 5], dim=1)
LAYOUTS: dict[str, tuple[tuple[int, ...], Call]] = {
    "two views": ((12, 12), lambda loss, x: loss(*x)),
    "two views, groups and mask": (
        (12, 12),
        lambda loss, x: loss(*x, groups=LABELS, valid=mask(24, 24)),
    ),
    "two views, keys": ((12, 12), lambda loss, x: loss(*x, groups=KEYS)),
    "pairs": ((12, 12), lambda loss, x: loss.in_batch(*x)),
    "pairs with extra, both directions": (
        (12, 12, 5),
        lambda loss, x: loss.in_batch(x[0], x[1], extra=x[2], both_directions=True),
    ),
    "pairs with extra, groups and mask": (
        (12, 12, 5),
        lambda loss, x: loss.in_batch(
            x[0],
            x[1],
            extra=x[2],
            groups=LABELS,
            extra_groups=torch.arange(5),
            valid=mask(12, 17),
        ),
    ),
    "shared candidates": ((12, 12, 17), lambda loss, x: loss.sampled(*x)),
    "own candidates": (
        (12, 12, 60),
        lambda loss, x: loss.sampled(x[0], x[1], x[2].view(12, 5, DIM)),
    ),
    "own candidates, mask": (
        (12, 12, 60),
        lambda loss, x: loss.sampled(x[0], x[1], x[2].view(12, 5, DIM), valid=mask(12, 5)),
    ),
}
layouts = pytest.mark.parametrize("layout", list(LAYOUTS))
engines = pytest.mark.parametrize("engine", ["dense", "chunked"])
precisions = pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)]
)


def values_and_gradients(
    loss: bayescl.ContrastiveLoss, layout: str, dtype: torch.dtype, seed: int = 50
) -> list[Tensor]:
    sizes, call = LAYOUTS[layout]
    rows = classes(*sizes, seed=seed, dtype=dtype)
    value = call(loss, rows)
    upstream = torch.linspace(0.5, 2, value.numel(), dtype=dtype).view(value.shape)
    learnable = loss.learnable_temperature
    leaves = rows if learnable is None else [*rows, *learnable.parameters()]
    return [value.detach(), *torch.autograd.grad(value, leaves, upstream.to(value.dtype))]


# ------------------------------------------------------------------------------ InfoNCE


@engines
@layouts
def test_before_the_first_fit_it_is_info_nce_bit_for_bit(layout: str, engine: str) -> None:
    loss = make(reduction="none", engine=engine, chunk_size=5, memory_size=1024, num_classes=64)
    plain = bayescl.InfoNCELoss(temperature=0.5, reduction="none", engine=engine, chunk_size=5)
    for seed in range(3):
        mine = values_and_gradients(loss, layout, torch.float32, seed)
        other = values_and_gradients(plain, layout, torch.float32, seed)
        assert all(map(torch.equal, mine, other))
    assert loss.memory.calls == 3
    assert loss.memory.classes is None


@engines
@layouts
def test_without_trust_it_is_info_nce_bit_for_bit(layout: str, engine: str) -> None:
    loss = fitted(reduction="none", engine=engine, chunk_size=5).eval()
    plain = bayescl.InfoNCELoss(temperature=0.5, reduction="none", engine=engine, chunk_size=5)
    other = values_and_gradients(plain, layout, torch.float32)
    assert not torch.equal(values_and_gradients(loss, layout, torch.float32)[0], other[0])
    state = state_of(loss) | {"agreement": torch.full((4,), 0.5)}
    loss.memory.set_extra_state(state)
    assert loss.trust == 0
    assert all(map(torch.equal, values_and_gradients(loss, layout, torch.float32), other))
    assert not loss.same_class(*classes(3, 4, seed=0)).any()


def test_views_that_agree_by_chance_alone_are_not_believed() -> None:
    loss = make()
    for step in range(12):
        generator = torch.Generator().manual_seed(step)
        views = torch.randn(2, 16, DIM, generator=generator)
        value = loss(*views)
        assert torch.equal(value, info_nce(loss)(*views))
    assert loss.memory.classes is not None
    assert loss.trust == 0


def test_classes_that_are_there_are_found_without_a_label() -> None:
    loss = fitted()
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(40) % CLASSES
    rows = torch.eye(DIM)[labels] + 0.2 * torch.randn(40, DIM, generator=generator)
    posterior = loss.same_class(3 * rows, rows)
    assert posterior.shape == (40, 40)
    assert ((posterior >= 0) & (posterior <= 1)).all()
    same = labels[:, None] == labels
    assert posterior[same].mean() > 5 * posterior[~same].mean()
    assert loss.readings() == {"trust": loss.trust}
    assert 0 < loss.trust <= 1


def test_before_the_first_fit_nothing_is_of_one_class() -> None:
    assert torch.equal(make().same_class(*classes(3, 2, seed=0)), torch.zeros(3, 2))


# ------------------------------------------------------------------------------ engines


@layouts
@precisions
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_engines_agree(layout: str, dtype: torch.dtype, tolerance: float, reduction: str) -> None:
    loss = fitted(reduction=reduction, attraction=1.5).eval()
    loss.engine = "dense"
    expected = values_and_gradients(loss, layout, dtype)
    for chunk_size in (1, 5, 100):
        loss.engine, loss.chunk_size = "chunked", chunk_size
        for mine, other in zip(values_and_gradients(loss, layout, dtype), expected, strict=True):
            scale = max(1.0, float(other.abs().max()))
            assert (mine - other).abs().max() <= tolerance * scale


@layouts
@precisions
def test_engines_agree_on_a_learnable_temperature(
    layout: str, dtype: torch.dtype, tolerance: float
) -> None:
    loss = fitted(temperature=bayescl.LearnableTemperature(0.3), engine="dense").eval()
    expected = values_and_gradients(loss, layout, dtype)
    loss.engine, loss.chunk_size = "chunked", 5
    for mine, other in zip(values_and_gradients(loss, layout, dtype), expected, strict=True):
        # The parameter itself is kept in float32.
        bound = tolerance if mine.dtype == dtype else 1e-6
        assert (mine - other).abs().max() <= bound * max(1.0, float(other.abs().max()))


@engines
def test_a_temperature_per_call_stands_in_for_the_losss_own(engine: str) -> None:
    loss, other = fitted(engine=engine).eval(), fitted(engine=engine, temperature=0.2).eval()
    other.memory.set_extra_state(state_of(loss))
    views = classes(9, 9, seed=3)
    given = torch.tensor(0.2, requires_grad=True)
    value = loss(*views, temperature=given)
    torch.testing.assert_close(value, other(*views))
    assert torch.autograd.grad(value, given)[0].abs() > 0


@engines
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_raised_to_float32(engine: str, dtype: torch.dtype) -> None:
    loss = make(engine=engine)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for step in range(8):
            value = loss(*(view.to(dtype) for view in classes(16, 16, seed=step)))
            assert value.dtype == torch.float32
    assert loss.trust > 0.3
    views = classes(12, 12, seed=60)
    loss.eval()
    exact = loss(*views)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(*views), exact)
    half = loss(*(view.to(dtype) for view in views))
    torch.testing.assert_close(half, exact, rtol=0.02, atol=0)


def slow(loss: LatentClassContrastiveLoss, layout: str, rows: list[Tensor]) -> Tensor:
    """The documented loss, one anchor at a time in float64."""
    found, trust = loss.memory.classes, loss.memory.trust_by_mixture
    assert found is not None
    assert trust is not None

    def posterior(first: Tensor, second: Tensor) -> Tensor:
        return F.same_class(first, second, trust=trust, transitions=found.transitions)

    def alone(some: Tensor) -> Tensor:
        return F.class_responsibilities(some.detach().float(), found)

    unit = [some / some.norm(dim=-1, keepdim=True) for some in rows]
    anchors, positives = unit[:2]
    views = [some.detach().float() for some in rows[:2]]
    items = F.item_responsibilities(*views, found)[0]
    count = len(anchors)

    def row(anchor: Tensor, positive: Tensor, others: list[Tensor], same: Tensor) -> Tensor:
        return reference.latent(
            anchor @ positive / loss.temperature,
            [anchor @ other / loss.temperature for other in others],
            same.double().tolist(),
            attraction=loss.attraction,
            threshold=loss.threshold,
        )

    if layout == "two views":
        both, twice = torch.cat([anchors, positives]), torch.cat([items, items])
        same = posterior(twice, twice)
        losses = []
        for i in range(2 * count):
            partner = (i + count) % (2 * count)
            columns = [j for j in range(2 * count) if j not in (i, partner)]
            losses.append(row(both[i], both[partner], list(both[columns]), same[i, columns]))
        return torch.stack(losses)
    if layout.startswith("pairs"):

        def direction(anchors: Tensor, positives: Tensor, extra: Tensor | None) -> list[Tensor]:
            columns = positives if extra is None else torch.cat([positives, extra])
            shares = items if extra is None else torch.cat([items, alone(extra)])
            same = posterior(items, shares)
            kept = [[j for j in range(len(columns)) if j != i] for i in range(count)]
            return [
                row(anchors[i], positives[i], list(columns[kept[i]]), same[i, kept[i]])
                for i in range(count)
            ]

        extra = unit[2] if len(unit) > 2 else None
        losses = direction(anchors, positives, extra)
        if "both" in layout:
            losses += direction(positives, anchors, None)
        return torch.stack(losses)
    candidates = unit[2].view(count, 5, DIM) if "own" in layout else unit[2]
    shares = alone(rows[2])
    losses = []
    for i in range(count):
        mine = candidates[i] if "own" in layout else candidates
        ours = shares.view(count, 5, -1)[i] if "own" in layout else shares
        losses.append(row(anchors[i], positives[i], list(mine), posterior(items, ours)[i]))
    return torch.stack(losses)


@engines
@pytest.mark.parametrize("attraction", [0.0, 1.0])
@pytest.mark.parametrize(
    "layout",
    [
        "two views",
        "pairs",
        "pairs with extra, both directions",
        "shared candidates",
        "own candidates",
    ],
)
def test_values_and_gradients_equal_the_slow_loop(
    layout: str, attraction: float, engine: str
) -> None:
    loss = fitted(attraction=attraction, reduction="none", engine=engine, chunk_size=5).eval()
    sizes, call = LAYOUTS[layout]
    rows = classes(*sizes, seed=70, dtype=torch.float64)
    value, expected = call(loss, rows), slow(loss, layout, rows)
    # Posteriors are float32.
    torch.testing.assert_close(value, expected, rtol=1e-5, atol=1e-6)
    upstream = torch.linspace(0.5, 2, len(value), dtype=torch.float64)
    for mine, other in zip(
        torch.autograd.grad(value, rows, upstream),
        torch.autograd.grad(expected, rows, upstream),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@engines
def test_gradients_are_right_while_the_posterior_stays(engine: str) -> None:
    """Components so far apart that a small step moves no responsibility."""
    loss = make(engine=engine, chunk_size=3, memory_size=2, attraction=1.3, temperature=0.4).eval()
    eye = torch.eye(4, dtype=torch.float64)
    loss.memory.set_extra_state(
        {
            "calls": 1,
            "seen": 2,
            "since": 0,
            "next": 0,
            "filled": 2,
            "sizes": [4],
            "items": torch.zeros(2, 8),
            "agreement": torch.tensor([0.64], dtype=torch.float64),
            "center": torch.zeros(4, dtype=torch.float64),
            "transform": eye,
            "directions": eye,
            "weights": torch.full((4,), 0.25, dtype=torch.float64),
            "kappa": torch.tensor([60.0], dtype=torch.float64),
            "transitions": eye.flatten(),
            "alignment": torch.ones(1, dtype=torch.float64),
            "closeness": torch.ones((), dtype=torch.float64),
            "share": torch.tensor(0.25, dtype=torch.float64),
        }
    )
    generator = torch.Generator().manual_seed(2)
    of_class = torch.tensor([0, 1, 0, 2, 1])
    views = [
        (eye[of_class] + 0.05 * torch.randn(5, 4, dtype=torch.float64, generator=generator))
        for _ in range(3)
    ]
    posterior = loss.same_class(views[0], views[1])
    torch.testing.assert_close(posterior, 0.7 * (of_class[:, None] == of_class).double())
    inputs = [view.requires_grad_() for view in views]
    assert torch.autograd.gradcheck(loss, inputs[:2])
    assert torch.autograd.gradcheck(lambda *x: loss.in_batch(*x, both_directions=True), inputs[:2])
    assert torch.autograd.gradcheck(loss.sampled, inputs)
    if engine == "dense":
        assert torch.autograd.gradgradcheck(loss, inputs[:2])


@settings(max_examples=25, deadline=None)
@given(batch=st.integers(2, 9), seed=st.integers(0, 999), temperature=st.floats(0.05, 1.0))
def test_order_of_rows_and_of_views_does_not_matter(
    batch: int, seed: int, temperature: float
) -> None:
    loss = MODEL
    view_1, view_2 = classes(batch, batch, seed=seed, dtype=torch.float64)
    order = torch.randperm(batch, generator=torch.Generator().manual_seed(seed))
    value = loss(view_1, view_2, temperature=temperature)
    close = {"rtol": 2e-4, "atol": 1e-5}  # float32 responsibilities of many small components
    torch.testing.assert_close(loss(view_2, view_1, temperature=temperature), value, **close)
    other = loss(view_1[order], view_2[order], temperature=temperature)
    torch.testing.assert_close(other, value, **close)


def test_a_class_is_pulled_together_and_others_are_pushed_apart() -> None:
    loss = fitted(reduction="sum").eval()
    plain = bayescl.InfoNCELoss(temperature=0.5, reduction="sum")
    eye = torch.eye(DIM)
    views = [eye[[0, 0, 1]] + 0.1 * eye[[4, 5, 6]] for _ in range(2)]
    slopes = []
    for each in (loss, plain):
        first = views[0].clone().requires_grad_()
        (gradient,) = torch.autograd.grad(each(first, views[1]), first)
        slopes.append(float((gradient[0] * (views[1][1] - views[1][0])).sum()))
    assert slopes[0] < 0 < slopes[1]  # a step against the gradient goes to the other of its class


# ------------------------------------------------------------------------------ training


def test_in_eval_mode_nothing_is_remembered() -> None:
    loss = fitted().eval()
    before = state_of(loss)
    views = classes(12, 12, seed=9)
    loss(*views)
    loss.in_batch(*views, both_directions=True)
    loss.sampled(*views, views[0])
    loss.same_class(*views)
    assert_same_state(state_of(loss), before)


def test_own_logits_are_info_nce_and_are_not_remembered() -> None:
    loss = fitted()
    before = state_of(loss)
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    value = loss.from_logits(logits[:, 0], logits[:, 1:])
    assert torch.equal(value, info_nce(loss).from_logits(logits[:, 0], logits[:, 1:]))
    assert_same_state(state_of(loss), before)


@layouts
def test_every_layout_is_remembered_in_training_mode(layout: str) -> None:
    loss = make(memory_size=64)
    values_and_gradients(loss, layout, torch.float32)
    first, second, *_ = classes(*LAYOUTS[layout][0], seed=50)
    both = torch.cat([nn.functional.normalize(rows.detach(), dim=1) for rows in (first, second)], 1)
    torch.testing.assert_close(loss.memory.items, both)
    assert not loss.memory.items.requires_grad


def test_the_gradient_cache_equals_the_plain_step_and_remembers_it_once() -> None:
    encoders = []
    for _ in range(2):
        torch.manual_seed(0)
        encoders.append(nn.Linear(DIM, DIM))
    cached, plain = make(engine="dense"), make(engine="dense")
    for step in range(8):
        views = [view.detach() for view in classes(16, 16, seed=step)]
        for encoder in encoders:
            encoder.zero_grad()
        value = bayescl.cached_backward(cached, encoders[0], *(view.split(5) for view in views))
        expected = plain(*(encoders[1](view) for view in views))
        expected.backward()
        torch.testing.assert_close(value, expected.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            encoders[0].weight.grad, encoders[1].weight.grad, atol=1e-5, rtol=1e-4
        )
        assert cached.memory.calls == step + 1
    assert cached.trust > 0
    assert cached.trust == pytest.approx(plain.trust, abs=1e-4)


def test_a_transform_leaves_the_memory_alone() -> None:
    loss = fitted()
    view_1, view_2 = classes(12, 12, seed=9)
    before = state_of(loss)
    found = torch.func.grad(loss)(view_1, view_2)
    assert_same_state(state_of(loss), before)
    loss.eval()
    (expected,) = torch.autograd.grad(loss(view_1, view_2), view_1)
    torch.testing.assert_close(found, expected)


# ------------------------------------------------------------------------------ state


class Parent(nn.Module):
    def __init__(self, loss: LatentClassContrastiveLoss) -> None:
        super().__init__()
        self.encoder = nn.Linear(DIM, DIM)
        self.loss = loss


def through_a_file(state: dict[str, object]) -> dict[str, object]:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 7, 8])
@pytest.mark.parametrize("parent", [False, True])
def test_a_resumed_run_goes_on_exactly(steps: int, parent: bool) -> None:
    one = make()
    train(one, steps)
    module = Parent(one) if parent else one
    state = through_a_file(module.state_dict())
    expected = train(one, 9, start=steps)
    other = make(temperature=0.9, num_classes=7)
    (Parent(other) if parent else other).load_state_dict(state, strict=True)
    assert all(map(torch.equal, train(other, 9, start=steps), expected))
    assert_same_state(state_of(other), state_of(one))
    assert other.trust == one.trust > 0


def test_a_loaded_state_is_a_copy() -> None:
    one, other = fitted(), make()
    other.load_state_dict(one.state_dict())
    before = state_of(other)
    train(one, 3, start=20)
    assert_same_state(state_of(other), before)


def test_an_unfitted_state_unfits_a_fitted_loss() -> None:
    loss, views = fitted(), classes(16, 16, seed=1)
    loss.load_state_dict(make().state_dict())
    assert loss.trust == 0
    assert loss.memory.items is None
    assert torch.equal(loss(*views), info_nce(loss)(*views))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))])
def test_copies_go_on_alone(clone: Callable[[nn.Module], LatentClassContrastiveLoss]) -> None:
    one = fitted()
    other = clone(one)
    assert all(map(torch.equal, train(one, 4, start=30), train(other, 4, start=30)))
    before = state_of(other)
    train(one, 4, start=40)
    assert_same_state(state_of(other), before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_the_precision_of_a_model_leaves_the_memory_alone(dtype: torch.dtype) -> None:
    one, other = fitted(), fitted()
    Parent(other).to(dtype)
    assert_same_state(state_of(other), state_of(one))
    assert all(map(torch.equal, train(one, 3, start=30), train(other, 3, start=30)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"calls": -1}, "calls must be"),
        ({"sizes": [0]}, "sizes must be"),
        ({"sizes": [3]}, "is damaged"),
        ({"directions": None}, "is damaged"),
        ({"items": "none"}, "is damaged"),
        ({"items": torch.zeros(5, 16)}, "memory_size must be 5 to load this state, got 64"),
    ],
)
def test_a_damaged_state_is_refused(change: dict[str, object], message: str) -> None:
    loss = fitted()
    with pytest.raises(ValueError, match=message):
        loss.memory.set_extra_state(state_of(loss) | change)
    with pytest.raises(ValueError, match=r"ClassMemory is damaged: it must hold calls, next, "):
        loss.memory.set_extra_state({})
    with pytest.raises(ValueError, match=r"ClassMemory is damaged: it must hold calls, next, "):
        loss.memory.set_extra_state(None)


# ------------------------------------------------------------------------------ robustness

MODEL = fitted(engine="dense").eval()
KINDS = ["equal", "collapsed", "duplicated", "zero", "tiny", "denormal", "huge", "one coordinate"]


def odd_rows(kind: str, count: int, seed: int) -> Tensor:
    rows = torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))
    return {
        "random": lambda: rows,
        "equal": lambda: torch.ones(count, DIM),
        "collapsed": lambda: 1 + 1e-6 * rows,
        "duplicated": lambda: rows[torch.arange(count) // 4],
        "zero": lambda: torch.zeros(count, DIM),
        "tiny": lambda: 1e-30 * rows,
        "denormal": lambda: 1e-41 * rows,
        "huge": lambda: 1e30 * rows,
        "one coordinate": lambda: rows * torch.eye(DIM)[0],
    }[kind]()


@engines
@settings(max_examples=20, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["random", *KINDS]), min_size=2, max_size=4),
    batch=st.sampled_from([2, 3, 16, 40]),
    memory=st.sampled_from([2, 3, 24, 64]),
    threshold=st.sampled_from([0.0, 0.5, 1.0]),
    attraction=st.sampled_from([0.0, 1.0, 10.0]),
    tau_plus=st.sampled_from([0.001, 0.1, 0.9]),
    temperature=st.sampled_from([0.01, 0.5]),
)
def test_finite_embeddings_never_give_nan(
    engine: str,
    kinds: list[str],
    batch: int,
    memory: int,
    threshold: float,
    attraction: float,
    tau_plus: float,
    temperature: float,
) -> None:
    loss = LatentClassContrastiveLoss(
        tau_plus=tau_plus,
        threshold=threshold,
        attraction=attraction,
        memory_size=memory,
        refit_every=1,
        temperature=temperature,
        engine=engine,
        chunk_size=7,
    )
    for step, kind in enumerate(kinds * 2):
        views = [odd_rows(kind, batch, 2 * step + view).requires_grad_() for view in range(2)]
        value = loss(*views)
        value.backward()
        assert value.isfinite()
        assert all(view.grad.isfinite().all() for view in views)
        assert 0 <= loss.trust <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_odd_rows_are_forgotten(kind: str) -> None:
    loss = make()
    for step in range(6):
        loss(odd_rows(kind, 16, step), odd_rows(kind, 16, step + 50))
    train(loss, 24)
    assert loss.trust > 0.3


@engines
def test_nan_rows_cost_their_own_anchors_and_are_forgotten(engine: str) -> None:
    loss, clean = [make(engine=engine, chunk_size=7, reduction="none") for _ in range(2)]
    train(loss)
    train(clean)
    views = [view.detach().clone() for view in classes(16, 16, seed=80)]
    candidates = classes(20, seed=81)[0].detach()
    views[0][3], views[1][5], views[0][7, 2] = torch.nan, torch.nan, torch.inf
    leaves = [view.requires_grad_() for view in views]
    losses = loss.sampled(*leaves, candidates)
    bad = torch.zeros(16, dtype=torch.bool)
    bad[[3, 5, 7]] = True
    assert torch.equal(losses.isnan(), bad)
    (gradient,) = torch.autograd.grad(losses[~bad].sum(), leaves[0])
    assert gradient[~bad].isfinite().all()
    for step in range(6):  # until the memory holds them, and fits to them, and beyond
        value = loss(*classes(16, 16, seed=90 + step))
        assert value.isfinite().all()
        assert loss.memory.classes is not None
        assert all(tensor.isfinite().all() for tensor in loss.memory.classes.transitions)
    assert loss.trust > 0.3


def test_a_memory_of_nothing_but_nan_is_info_nce_and_recovers() -> None:
    loss = make()
    bad = torch.full((16, DIM), torch.nan)
    for _ in range(6):
        assert loss(bad, bad).isnan()
    assert loss.trust == 0
    views = classes(16, 16, seed=0)
    assert torch.equal(loss(*views), info_nce(loss)(*views))
    train(loss, 24)
    assert loss.trust > 0.3


def test_more_classes_than_a_memory_holds_rows_do_no_harm() -> None:
    loss = LatentClassContrastiveLoss(num_classes=1000, memory_size=30, refit_every=1)
    for step in range(6):
        assert loss(*classes(16, 16, seed=step)).isfinite()
    assert loss.memory.classes is not None
    assert max(loss.memory.classes.sizes) <= 15


def test_a_prior_set_while_training_counts_from_the_next_fit() -> None:
    loss = fitted(refit_every=4)
    assert loss.memory.classes.sizes == (8, 12, 16, 24)
    loss.tau_plus = 0.5
    values = train(loss, 3, start=8)
    assert loss.memory.classes.sizes == (8, 12, 16, 24)
    train(loss, 1, start=11)
    assert loss.memory.classes.sizes == (4, 6, 8, 12)
    assert loss.trust == 0  # nothing is known yet of the new mixtures
    train(loss, 1, start=12)
    assert loss.trust > 0
    assert torch.stack(values).isfinite().all()


@pytest.mark.parametrize("trained", [1, 8])
@pytest.mark.parametrize("mode", [True, False])
def test_another_number_of_coordinates_is_refused(trained: int, mode: bool) -> None:
    loss = make()
    train(loss, trained)
    loss.train(mode)
    with pytest.raises(
        ValueError, match=r"embeddings must have 8 coordinates, .* got 5: use a new"
    ):
        loss(torch.ones(4, 5), torch.ones(4, 5))
    with pytest.raises(ValueError, match=r"embeddings must have 8 coordinates, .* got 5"):
        loss.same_class(torch.ones(4, 5), torch.ones(4, 5))
    train(loss, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_classes": 1}, "num_classes must be"),
        ({"tau_plus": 0.0, "num_classes": None}, r"tau_plus must lie in \(0, 1\)"),
        ({"tau_plus": 1.0, "num_classes": None}, r"tau_plus must lie in \(0, 1\)"),
        ({"attraction": -1.0}, "attraction must be"),
        ({"threshold": 1.5}, r"threshold must lie in \[0, 1\]"),
        ({"memory_size": 1}, "memory_size must be"),
        ({"refit_every": 0}, "refit_every must be"),
        ({"engine": "fused"}, "engine must be auto, dense or chunked for this loss"),
    ],
)
def test_bad_arguments_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**settings)


def test_without_attraction_candidates_only_cease_to_repel() -> None:
    loss = fitted(attraction=0.0, reduction="none", engine="dense").eval()
    views = classes(12, 12, seed=3)
    assert (loss(*views) >= 0).all()
    strict = fitted(threshold=1.0, reduction="none", engine="dense").eval()
    assert torch.equal(strict(*views), loss(*views))  # no posterior exceeds 1


# ------------------------------------------------------------------------------ the oracle


@engines
@pytest.mark.parametrize("attraction", [0.0, 1.0, 2.0])
def test_the_attracting_oracle_has_labels_for_a_posterior(attraction: float, engine: str) -> None:
    oracle = bayescl.AttractingOracleContrastiveLoss(
        attraction=attraction, reduction="none", engine=engine, chunk_size=5
    )
    view_1, view_2, candidates = classes(9, 9, 14, seed=0, dtype=torch.float64)
    labels, others = torch.arange(9) % 3, torch.arange(14) % 4
    result = oracle.sampled(
        view_1, view_2, candidates, groups=labels, candidate_groups=others, temperature=0.3
    )
    unit = [nn.functional.normalize(rows, dim=1) for rows in (view_1, view_2, candidates)]
    expected = F.latent_loss(
        (unit[0] * unit[1]).sum(dim=1) / 0.3,
        unit[0] @ unit[2].T / 0.3,
        (labels[:, None] == others).double(),
        attraction=attraction,
    )
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    leaves = (view_1, view_2, candidates)
    for mine, other in zip(
        torch.autograd.grad(result.sum(), leaves),
        torch.autograd.grad(expected.sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-12)


def test_the_attracting_oracle_takes_one_label_per_row() -> None:
    oracle, views = bayescl.AttractingOracleContrastiveLoss(), classes(12, 12, seed=0)
    with pytest.raises(ValueError, match="needs one group per row and candidate"):
        oracle(*views, groups=KEYS)
    with pytest.raises(ValueError, match="needs groups"):
        oracle(*views)
    with pytest.raises(ValueError, match="attraction must be"):
        bayescl.AttractingOracleContrastiveLoss(attraction=-0.5)
