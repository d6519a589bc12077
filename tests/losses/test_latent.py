"""The latent-class loss: InfoNCE until classes are believed, and the same in every engine."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import pytest
import torch
from fuzz.calls import Dice
from reference import latent as latent_reference
from reference import objectives as reference
from reference.calls import pairs_of
from torch import Tensor, nn
from torch._dynamo.utils import counters

import bayescl
from bayescl import LatentClassContrastiveLoss
from bayescl import functional as F
from bayescl.functional.latent import AIMS
from bayescl.latent_classes.fit import COMPONENTS_PER_CLASS, SCALES

DIM, CLASSES = 8, 4
ENGINES = ("reference", "blocked")


def make(**settings: Any) -> LatentClassContrastiveLoss:
    few = {"num_classes": CLASSES, "memory_size": 64, "refit_every": 2, "temperature": 0.5}
    return LatentClassContrastiveLoss(**few | {"chunk_size": 5} | settings)


def plain(**settings: Any) -> bayescl.InfoNCELoss:
    return bayescl.InfoNCELoss(**{"temperature": 0.5, "chunk_size": 5} | settings)


def classes(*counts: int, seed: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Items about one axis per class; row by row each tensor holds another view of the same."""
    generator = torch.Generator().manual_seed(seed)

    def noise() -> Tensor:
        return torch.randn(max(counts), DIM, generator=generator, dtype=torch.float64)

    of_class = torch.randint(0, CLASSES, (max(counts),), generator=generator)
    items = torch.eye(DIM, dtype=torch.float64)[of_class] + 0.2 * noise()
    return [(items + 0.1 * noise())[:count].to(dtype).requires_grad_() for count in counts]


def labels_of(count: int, seed: int, known: float = 0.6) -> Tensor:
    """Their labels, -1 where not known."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, CLASSES, (count,), generator=generator)
    return labels.where(torch.rand(count, generator=generator) < known, -1)


def train(
    loss: LatentClassContrastiveLoss, steps: int = 8, start: int = 0, known: float | None = None
) -> list[Tensor]:
    values = []
    for seed in range(start, start + steps):
        labels = None if known is None else labels_of(16, seed, known)
        values.append(loss(*classes(16, 16, seed=seed), labels=labels).detach())
    return values


@cache
def trained_state(known: float | None = None) -> dict[str, Any]:
    loss = make()
    train(loss, 24, known=known)
    assert loss.trust > 0.7  # else what follows would see no attraction
    return loss.memory.get_extra_state()


def fitted(known: float | None = None, **settings: Any) -> LatentClassContrastiveLoss:
    loss = make(**settings)
    loss.memory.set_extra_state(trained_state(known))
    return loss


def state_of(loss: LatentClassContrastiveLoss) -> dict[str, Any]:
    return copy.deepcopy(loss.memory.get_extra_state())


def assert_same_state(one: dict[str, Any], other: dict[str, Any]) -> None:
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


GROUPS = torch.arange(12) // 3
KEYS = torch.stack([GROUPS, torch.arange(12) % 5], dim=1)
OF_ROWS, OF_MORE, OF_OWN = labels_of(12, 0), labels_of(17, 1), labels_of(60, 2).view(12, 5)


# The rows that each takes, its options, and its options with labels.
LAYOUTS: dict[str, tuple[tuple[int, ...], dict[str, Any], dict[str, Any]]] = {
    "two views": ((12, 12), {}, {}),
    "two views, groups and mask": ((12, 12), {"groups": GROUPS, "valid": mask(24, 24)}, {}),
    "two views, keys": ((12, 12), {"groups": KEYS}, {}),
    "pairs": ((12, 12), {}, {}),
    "pairs with extra, both directions": (
        (12, 12, 17), {"both_directions": True}, {"extra_labels": OF_MORE},
    ),
    "pairs with extra, groups and mask": (
        (12, 12, 17),
        {"groups": GROUPS, "extra_groups": torch.arange(17), "valid": mask(12, 29)},
        {},
    ),
    "candidates": ((12, 12, 17), {}, {"candidate_labels": OF_MORE}),
    "candidates, own": ((12, 12, 60), {}, {"candidate_labels": OF_OWN}),
    "candidates, own, mask": ((12, 12, 60), {"valid": mask(12, 5)}, {}),
}  # fmt: skip
CALLS = {
    "two": ("two_views", "view_1", "view_2"),
    "pairs": ("in_batch", "anchors", "positives", "extra"),
    "candidates": ("sampled", "anchors", "positives", "candidates"),
}


def named(layout: str, rows: list[Tensor]) -> tuple[str, dict[str, Tensor]]:
    """The call that a layout is, and its embeddings by name."""
    kind, *names = CALLS[layout.replace(",", "").split()[0]]
    given = dict(zip(names, rows, strict=False))
    if "own" in layout:
        given["candidates"] = given["candidates"].view(12, 5, DIM)
    return kind, given


def call(loss: bayescl.ContrastiveLoss, layout: str, rows: list[Tensor], **more: Any) -> Tensor:
    kind, given = named(layout, rows)
    if kind == "two_views":
        return loss(*rows, **more)
    return getattr(loss, kind)(**given, **more)


def called(
    loss: bayescl.ContrastiveLoss,
    layout: str,
    dtype: torch.dtype = torch.float32,
    seed: int = 50,
    labels: bool = False,
) -> list[Tensor]:
    """The value of a call in a layout, then its gradients."""
    sizes, options, with_labels = LAYOUTS[layout]
    rows = classes(*sizes, seed=seed, dtype=dtype)
    known = {"labels": OF_ROWS} | with_labels if labels else {}
    value = call(loss, layout, rows, **options, **known)
    upstream = torch.linspace(0.5, 2, value.numel(), dtype=dtype).view(value.shape)
    learnable = loss.learnable_temperature
    leaves = rows if learnable is None else [*rows, *learnable.parameters()]
    return [value.detach(), *torch.autograd.grad(value, leaves, upstream.to(value.dtype))]


# ------------------------------------------------------------------------------ InfoNCE


def test_without_a_fit_or_without_trust_it_is_info_nce_bit_for_bit() -> None:
    for layout, engine, aim in product(LAYOUTS, ENGINES, AIMS):
        told, shared = f"{layout}, {engine}, {aim}", {"reduction": "none", "engine": engine}
        expected = called(plain(**shared), layout)
        loss = make(memory_size=1024, num_classes=64, aim=aim, **shared)
        for _ in range(2):
            assert all(map(torch.equal, called(loss, layout), expected)), told
        assert loss.memory.calls == 2
        assert loss.memory.classes is None
        loss = fitted(aim=aim, **shared).eval()
        assert not torch.equal(called(loss, layout)[0], expected[0]), told
        state = state_of(loss)
        state["agreement"] = torch.full_like(state["agreement"], 0.5)
        loss.memory.set_extra_state(state)
        assert loss.trust == 0
        assert all(map(torch.equal, called(loss, layout), expected)), told
    assert not loss.same_class(*classes(3, 4, seed=0)).any()
    assert torch.equal(make().same_class(*classes(3, 2, seed=0)), torch.zeros(3, 2))


# ------------------------------------------------------------------------------ engines


def test_half_precision_is_raised_to_float32() -> None:
    for engine, dtype in product(ENGINES, (torch.bfloat16, torch.float16)):
        loss = make(engine=engine)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for step in range(8):
                views = (view.to(dtype) for view in classes(16, 16, seed=step))
                assert loss(*views, labels=labels_of(16, step, 0.1)).dtype == torch.float32
        assert loss.trust > 0
        loss.eval()
        views = classes(12, 12, seed=60)
        exact = loss(*views)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(loss(*views), exact)
        half = loss(*(view.to(dtype) for view in views))
        torch.testing.assert_close(half, exact, rtol=0.02, atol=0)


def slow(
    loss: LatentClassContrastiveLoss, layout: str, rows: list[Tensor], known: dict[str, Tensor]
) -> Tensor:
    """The documented loss, one anchor at a time in float64."""
    found, trust = loss.memory.classes, loss.memory.trust_by_mixture
    assert found is not None
    assert trust is not None
    settings = {"attraction": loss.attraction, "threshold": loss.threshold, "aim": loss.aim}
    settings |= {"sharpness": loss.temperature / 0.1, "trust": float(trust.mean())}
    shares = [F.class_responsibilities(some.detach().float(), found) for some in rows]
    items = (shares[0] + shares[1]) / 2
    labels, *of_more = (part.flatten() for part in known.values()) if known else (-1 + 0 * OF_ROWS,)
    kind, given = named(layout, [some / some.norm(dim=-1, keepdim=True) for some in rows])
    more = of_more[0] if of_more else torch.full((sum(map(len, rows[2:])),), -1)
    mine, of_mine, seen, of_seen = items, labels, items, labels
    if kind == "two_views":
        mine, of_mine = seen, of_seen = items.repeat(2, 1), labels.repeat(2)
    elif kind == "in_batch":
        seen, of_seen = torch.cat([items, *shares[2:]]), torch.cat([labels, more])
    else:
        seen, of_seen = shares[2], more
    losses = []
    for turn in pairs_of(kind, given, LAYOUTS[layout][1], loss.temperature):
        for i, kept in enumerate(turn.counted & turn.apart):
            columns = torch.arange(len(kept)) + (len(kept) * i if "own" in layout else 0)
            columns = columns[kept]
            same = latent_reference.posterior(mine[i : i + 1], seen[columns], found.transitions)
            same = same[0].clamp(max=1).double()
            certain = (of_mine[i] >= 0) & (of_seen[columns] >= 0)
            same = torch.where(certain, (of_seen[columns] == of_mine[i]).double(), same)
            is_labeled = certain if kind == "two_views" else None
            logits = turn.positive[i], turn.unlabeled[i][kept]
            losses.append(reference.latent(*logits, same, is_labeled=is_labeled, **settings))
    return torch.stack(losses)


def test_values_and_gradients_equal_the_slow_loop() -> None:
    for layout, aim, labels in product(LAYOUTS, AIMS, (False, True)):
        loss = fitted(attraction=1.3, aim=aim, reduction="none", temperature=0.3).eval()
        sizes, options, with_labels = LAYOUTS[layout]
        known = {"labels": OF_ROWS, **with_labels} if labels else {}
        rows = classes(*sizes, seed=70, dtype=torch.float64)
        expected = slow(loss, layout, rows, known)
        upstream = torch.linspace(0.5, 2, len(expected), dtype=torch.float64)
        wanted = [expected, *torch.autograd.grad(expected, rows, upstream)]
        for engine in ENGINES:
            loss.engine = engine
            value = call(loss, layout, rows, **options, **known)
            found = [value, *torch.autograd.grad(value, rows, upstream)]
            for mine, other in zip(found, wanted, strict=True):
                # Posteriors are float32.
                close = torch.allclose(mine, other, rtol=1e-5, atol=2e-5)
                assert close, (layout, aim, labels, engine, (mine - other).abs().max())


# ------------------------------------------------------------------------------ labels


def test_all_labels_make_it_the_supervised_loss() -> None:
    for engine, dtype, attraction in product(
        ENGINES, (torch.float32, torch.float64), (0.0, 1.0, 2.0)
    ):
        shared = {"engine": engine, "reduction": "none", "attraction": attraction}
        oracle = bayescl.SupervisedContrastiveLoss(temperature=0.5, chunk_size=5, **shared)
        shared["aim"] = "classes"
        for loss in (make(**shared), fitted(**shared), fitted(0.9, **shared)):
            views, known = classes(12, 12, seed=1, dtype=dtype), labels_of(12, 1, known=1.0)
            values = loss.eval()(*views, labels=known), oracle(*views, groups=known)
            gradients = (torch.autograd.grad(value.sum(), views) for value in values)
            for mine, other in (values, *zip(*gradients, strict=True)):
                assert (mine - other).abs().max() < 1e-6, (engine, dtype, attraction)


def test_labels_that_are_all_unknown_change_nothing() -> None:
    for number, (layout, made) in enumerate(product(LAYOUTS, (make, fitted))):
        engine, aim = ENGINES[number // 2 % 2], AIMS[number // 4 % 2]
        sizes, options, more = LAYOUTS[layout]
        unknown = {name: -1 + 0 * labels for name, labels in {"labels": OF_ROWS, **more}.items()}
        losses = [made(engine=engine, aim=aim, reduction="none") for _ in range(2)]
        for seed in range(2):
            rows = classes(*sizes, seed=seed)
            values = [
                call(loss, layout, rows, **options, **more)
                for loss, more in zip(losses, ({}, unknown), strict=True)
            ]
            gradients = (torch.autograd.grad(value.sum(), rows) for value in values)
            assert torch.equal(*values), (layout, engine, aim, seed)
            assert all(map(torch.equal, *gradients)), (layout, engine, aim, seed)
        assert_same_state(*map(state_of, losses))


def test_bad_labels_are_refused_and_nothing_is_remembered() -> None:
    loss = fitted(0.5)
    rows, before = classes(12, 12, seed=1), state_of(loss)
    for bad, message in (
        (OF_ROWS[:5], r"labels must have shape \[12\], got \[5\]"),
        (torch.full((12,), torch.nan), "labels must hold integers, got torch.float32"),
        (OF_ROWS - 1, "labels must be at least -1, which means unknown, got -2"),
    ):
        for call, name in (
            (loss, "labels"),
            (partial(loss.in_batch, both_directions=True), "labels"),
            (partial(loss.sampled, candidates=rows[0]), "labels"),
            (partial(loss.in_batch, extra=rows[0], labels=OF_ROWS), "extra_labels"),
            (partial(loss.sampled, candidates=rows[0], labels=OF_ROWS), "candidate_labels"),
        ):
            with pytest.raises(ValueError, match=f"^{name.removesuffix('labels')}{message}"):
                call(*rows, **{name: bad})
    with pytest.raises(ValueError, match="extra_labels needs labels"):
        loss.in_batch(*rows, extra=rows[0], extra_labels=OF_ROWS)
    assert_same_state(state_of(loss), before)
    expected = loss.eval()(*rows, labels=OF_ROWS)
    for dtype in (torch.int8, torch.int32):
        assert torch.equal(loss(*rows, labels=OF_ROWS.to(dtype)), expected)


# ------------------------------------------------------------------------------ training


def test_in_eval_mode_and_of_own_logits_nothing_is_remembered() -> None:
    loss = fitted()
    before = state_of(loss)
    logits = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    value = loss.from_logits(logits[:, 0], logits[:, 1:])
    assert torch.equal(value, plain().from_logits(logits[:, 0], logits[:, 1:]))
    loss.eval()
    views = classes(12, 12, seed=9)
    loss(*views)
    loss.in_batch(*views, both_directions=True)
    loss.sampled(*views, views[0])
    expected = loss.trust * F.same_class(*views, loss.memory.classes)
    torch.testing.assert_close(loss.same_class(*views), expected)
    assert_same_state(state_of(loss), before)


def test_corrections_for_sampling_are_not_seen() -> None:
    plain_one, corrected = make(), make()
    for seed in range(8):
        rows = classes(16, 16, seed=seed)
        plain_one.in_batch(*rows)
        corrected.in_batch(*rows, log_q=-rows[0][:, 0].detach().exp())
    assert corrected.trust == plain_one.trust > 0
    assert_same_state(state_of(corrected), state_of(plain_one))


def test_every_layout_is_remembered_in_training_mode() -> None:
    for layout, labels in product(LAYOUTS, (False, True)):
        loss = make()
        called(loss, layout, labels=labels)
        both = classes(*LAYOUTS[layout][0], seed=50)[:2]
        both = torch.cat([nn.functional.normalize(rows.detach(), dim=1) for rows in both], dim=1)
        torch.testing.assert_close(loss.memory.latest(12), both)
        assert not loss.memory.buffer.requires_grad
        if labels:
            torch.testing.assert_close(state_of(loss)["labelled_views"], both[OF_ROWS >= 0])
            assert torch.equal(state_of(loss)["labelled_labels"], OF_ROWS[OF_ROWS >= 0])


def test_a_transform_leaves_the_memory_alone() -> None:
    loss = fitted()
    view_1, view_2 = classes(12, 12, seed=9)
    before = state_of(loss)
    found = torch.func.grad(loss)(view_1, view_2)
    assert_same_state(state_of(loss), before)
    loss.eval()
    (expected,) = torch.autograd.grad(loss(view_1, view_2), view_1)
    torch.testing.assert_close(found, expected)


def test_first_calls_under_inference_mode_do_not_break_later_training() -> None:
    for more in ({}, {"num_classes": None}):
        losses, views, gradients = [make(memory_size=128, **more) for _ in range(2)], [], []
        for loss, inference in zip(losses, (True, False), strict=True):
            with torch.inference_mode(inference):
                train(loss, 12, known=0.5)
            assert loss.memory.classes is not None
            views = classes(16, 16, seed=20)
            value = [loss(*views, labels=labels_of(16, step)) for step in range(3)][-1]
            gradients.append(torch.autograd.grad(value, views))
        assert all(map(torch.equal, *gradients))
        assert_same_state(*map(state_of, losses))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # from torch itself
def test_a_compiled_loop_is_not_compiled_again_and_again() -> None:
    loss, encoder = make(), nn.Linear(DIM, DIM)

    @torch.compile(backend="eager")
    def step(view_1: Tensor, view_2: Tensor, labels: Tensor) -> Tensor:
        value = loss(encoder(view_1), encoder(view_2), labels=labels)
        return 2 * value

    graphs = []
    torch._dynamo.reset()
    counters.clear()
    for seed in range(16):
        views = [view.detach() for view in classes(16, 16, seed=seed)]
        step(*views, labels_of(16, seed)).backward()
        graphs.append(counters["stats"]["unique_graphs"])
    assert loss.memory.classes is not None
    assert graphs[-1] == graphs[8]  # once more where trust comes
    torch._dynamo.reset()


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


def test_a_resumed_run_goes_on_exactly() -> None:
    started = ((0, False, 0.5), (1, True, None), (4, True, 0.5), (7, False, None))
    for steps, parent, known in started:
        one = make()
        train(one, steps, known=known)
        state = through_a_file((Parent(one) if parent else one).state_dict())
        expected = train(one, 9, start=steps, known=known)
        other = make(temperature=0.9, num_classes=7)
        (Parent(other) if parent else other).load_state_dict(state, strict=True)
        told = (steps, parent, known)
        assert all(map(torch.equal, train(other, 9, start=steps, known=known), expected)), told
        assert_same_state(state_of(other), state_of(one))
        assert other.trust == one.trust
    estimated, other = (make(num_classes=None, memory_size=256) for _ in range(2))
    train(estimated, 20)
    other.load_state_dict(through_a_file(estimated.state_dict()))
    assert other.tau_plus == estimated.tau_plus == estimated.memory.prior
    assert all(map(torch.equal, train(other, 9, start=20), train(estimated, 9, start=20)))
    assert_same_state(state_of(other), state_of(estimated))


def test_a_state_shares_nothing_with_the_memory() -> None:
    one, other = fitted(0.5), make()
    kept = one.state_dict()
    before = copy.deepcopy(kept)
    other.load_state_dict(kept)
    train(one, 3, start=20, known=0.5)
    train(other, 3, start=50, known=0.5)
    for name, value in before.items():
        (assert_same_state if "memory" in name else dict.__eq__)(kept[name], value)
    for loss in (one, other):
        before = state_of(loss)
        for value in loss.memory.get_extra_state().values():
            if isinstance(value, Tensor):
                value.fill_(9)
        assert_same_state(state_of(loss), before)


def test_an_unfitted_state_unfits_a_fitted_loss() -> None:
    loss, views = fitted(0.5), classes(16, 16, seed=1)
    loss.load_state_dict(make().state_dict())
    assert loss.trust == 0
    assert loss.memory.buffer is None
    assert torch.equal(loss(*views), plain()(*views))


def test_copies_go_on_alone_and_the_precision_of_a_model_leaves_the_memory_alone() -> None:
    for clone in (
        copy.deepcopy,
        lambda loss: pickle.loads(pickle.dumps(loss)),
        lambda loss: Parent(copy.deepcopy(loss)).to(torch.float64).loss,
        lambda loss: Parent(copy.deepcopy(loss)).to(torch.bfloat16).loss,
    ):
        one = fitted(0.5)
        other = clone(one)
        assert_same_state(state_of(other), state_of(one))
        assert all(map(torch.equal, *(train(each, 4, 30, known=0.5) for each in (one, other))))
        before = state_of(other)
        train(one, 4, start=40)
        assert_same_state(state_of(other), before)


def damaged(state: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """An entry, and what it is replaced with."""
    for name, value in state.items():
        if isinstance(value, Tensor):
            other = value.double() if value.is_floating_point() else value.float()
            yield from ((name, bad) for bad in ("none", 3.0, [1.0], other, value[None]))
            if name not in ("buffer", "share") and not name.startswith("labelled"):
                yield from ((name, torch.full_like(value, bad)) for bad in (torch.nan, torch.inf))
        elif name not in ("sizes", "scores") and not name.startswith("audited"):
            yield from ((name, bad) for bad in (-1, "many", None, float("nan"), [3]))
    yield from (("calls", 2.5), ("prior", 0.0), ("prior", 1.5), ("scale", len(SCALES)))
    yield from (("scores", bad) for bad in ([0.0], None, [float("nan")] * len(SCALES)))
    yield from (("sizes", bad) for bad in ([3], None, [0], "three", [2.5], 7))
    yield from (("buffer", torch.zeros(shape)) for shape in ((5, 16), (64, 15)))


def test_a_damaged_state_is_refused_by_name_and_changes_nothing() -> None:
    loss = fitted(0.5)
    before = state_of(loss)
    for name, bad in damaged(before):
        told = rf"^({name}|[a-z_]+(?= must have shape)|scores and scale|memory_size) must "
        with pytest.raises((ValueError, TypeError), match=told):
            loss.memory.set_extra_state(state_of(loss) | {name: bad})
        assert_same_state(state_of(loss), before)
    incomplete = [
        {name: value for name, value in before.items() if name != left} for left in before
    ]
    for bad in (None, {}, [], 3, *incomplete):
        with pytest.raises(ValueError, match=r"ClassMemory is damaged: it must hold calls, "):
            loss.memory.set_extra_state(bad)
    assert_same_state(state_of(loss), before)


# ------------------------------------------------------------------------------ robustness

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


@pytest.mark.filterwarnings("ignore:.*so no classes are looked for")
def test_finite_embeddings_never_give_nan() -> None:
    for seed in range(30):
        dice = Dice(seed)
        loss = LatentClassContrastiveLoss(
            tau_plus=dice.one(None, 5e-324, 0.001, 0.1, 0.9),
            threshold=dice.one(0.0, 0.5, 1.0),
            attraction=dice.one(0.0, 1.0, 10.0, 1e6),
            memory_size=dice.one(2, 3, 24, 64),
            refit_every=1,
            temperature=dice.one(0.01, 0.5),
            engine=dice.one(*ENGINES),
            aim=dice.one(*AIMS),
            chunk_size=7,
        )
        batch, known = dice.one(2, 3, 16, 40), dice.one(None, 0.0, 0.5, 1.0)
        for step, kind in enumerate(2 * [dice.one("random", *KINDS) for _ in range(3)]):
            views = [odd_rows(kind, batch, 2 * step + view).requires_grad_() for view in range(2)]
            value = loss(*views, labels=None if known is None else labels_of(batch, step, known))
            value.backward()
            assert value.isfinite(), seed
            assert all(view.grad.isfinite().all() for view in views), seed
            assert 0 <= loss.trust <= 1


def test_odd_rows_are_forgotten() -> None:
    for kind in KINDS:
        loss = make()
        for step in range(6):
            loss(odd_rows(kind, 16, step), odd_rows(kind, 16, step + 50))
        train(loss, 24)
        assert loss.trust > 0.4, kind


def test_nan_rows_cost_their_own_anchors_and_are_forgotten() -> None:
    for engine, labels in product(ENGINES, (None, labels_of(16, 0))):
        loss = make(engine=engine, reduction="none")
        train(loss)
        views = [view.detach().clone() for view in classes(16, 16, seed=80)]
        candidates = classes(20, seed=81)[0].detach()
        views[0][3], views[1][5], views[0][7, 2] = torch.nan, torch.nan, torch.inf
        leaves = [view.requires_grad_() for view in views]
        losses = loss.sampled(*leaves, candidates, labels=labels)
        bad = torch.zeros(16, dtype=torch.bool)
        bad[[3, 5, 7]] = True
        assert torch.equal(losses.isnan(), bad)
        (gradient,) = torch.autograd.grad(losses[~bad].sum(), leaves[0])
        assert gradient[~bad].isfinite().all()
        for step in range(16):  # until the memory holds them, and fits to them, and beyond
            assert loss(*classes(16, 16, seed=90 + step)).isfinite().all()
            assert loss.memory.classes is not None
            assert all(tensor.isfinite().all() for tensor in loss.memory.classes.transitions)
        assert loss.trust > 0.3


def test_more_classes_than_can_be_told_apart_are_info_nce() -> None:
    for more in ({"num_classes": 10**6}, {"num_classes": None, "tau_plus": 5e-324}):
        loss = make(refit_every=1, **more)
        views = classes(16, 16, seed=0)
        with pytest.warns(UserWarning, match="so no classes are looked for"):
            loss(*views)
        for step in range(5):  # without another warning
            views = classes(16, 16, seed=step)
            assert torch.equal(loss(*views), plain()(*views))
        assert loss.memory.classes is None
        assert "so no classes are looked for" in loss.explain()


def test_a_prior_set_while_training_counts_from_the_next_fit() -> None:
    sizes = [tuple(round(each / prior) for each in COMPONENTS_PER_CLASS) for prior in (0.25, 0.5)]
    loss = fitted(refit_every=4)
    loss.tau_plus = 0.5
    train(loss, 3, start=8)
    assert loss.memory.classes.sizes == sizes[0]
    train(loss, 1, start=11)
    assert loss.memory.classes.sizes == sizes[1]
    assert loss.trust == 0  # nothing is known yet of the new mixtures
    train(loss, 1, start=12)
    assert loss.trust > 0


def test_another_number_of_coordinates_is_refused() -> None:
    for steps, training in product((1, 8), (True, False)):
        loss, other = make(), torch.ones(4, 5)
        train(loss, steps)
        for call in (loss.train(training), loss.same_class):
            with pytest.raises(ValueError, match=r"must have 8 coordinates, .* got 5: use a new"):
                call(other, other)


def test_fits_in_vain_bring_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bayescl.losses.latent._FITS_IN_VAIN", 3)
    loss = make(refit_every=1)

    def call(step: int) -> None:
        loss(*torch.randn(2, 16, DIM, generator=torch.Generator().manual_seed(step)))

    for step in range(3):  # the second fills the memory enough for the first fit
        call(step)
    with pytest.warns(UserWarning, match="nothing was trusted in 3 fits .* not more, because"):
        call(3)
    for step in range(4, 9):
        call(step)
    assert loss.memory.fits_without_trust > 3
    trusted = fitted(refit_every=1)
    train(trusted, 3)
    assert trusted.memory.fits_without_trust == 0
