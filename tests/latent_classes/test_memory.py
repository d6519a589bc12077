"""What the latent-class loss remembers, and when it fits."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

from bayescl.functional import class_responsibilities, item_responsibilities, same_class
from bayescl.losses.class_explanation import explanation
from bayescl.losses.class_fits import (
    COMPONENTS_PER_CLASS,
    MOST_COMPONENTS,
    SCALES,
    fits_at_scales,
    memory_for,
    mixture_sizes,
)
from bayescl.losses.class_memory import ClassMemory, Precision

TAU_PLUS = 0.5
SIZES = tuple(round(each / TAU_PLUS) for each in COMPONENTS_PER_CLASS)


def views(count: int, seed: int = 0, dim: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(count, dim, generator=generator)
    return items, items + 0.1 * torch.randn(count, dim, generator=generator)


def test_the_newest_items_are_kept_with_both_views() -> None:
    for steps in ((3, 4), (5, 5, 5), (2, 9, 1), (10, 30, 4), (10,)):
        memory, seen = ClassMemory(10, refit_every=100), []
        for step, count in enumerate(steps):
            memory.remember(*views(count, step), tau_plus=0.001)
            seen.append(torch.cat(views(count, step), dim=1))
        newest = torch.cat(seen)[-10:]
        assert torch.equal(memory.items, newest)
        assert memory.calls == len(steps)


def calls_of_fits(memory: ClassMemory, calls: int, items: int = 6) -> list[int]:
    """The calls, each with so many items, that end in a fit."""
    found, before = [], None
    for call in range(1, calls + 1):
        memory.remember(*views(items, call), tau_plus=TAU_PLUS)
        if memory.classes is not before:
            found.append(call)
        before = memory.classes
    return found


def test_it_fits_once_there_are_enough_items_and_then_every_few_calls() -> None:
    memory = ClassMemory(64, refit_every=3)
    first = -(-memory.enough(TAU_PLUS) // 6)
    assert memory.enough(TAU_PLUS) == 2 * max(SIZES)
    assert calls_of_fits(memory, 12) == [first, *(call for call in (3, 6, 9, 12) if call > first)]
    assert memory.classes.sizes == SIZES
    # By default a fit lasts for twice the items that it saw, or more if they come a few at a time.
    for items, first, every in ((6, 2, 8), (32, 1, 8), (100, 1, 6), (128, 1, 4)):
        calls = calls_of_fits(ClassMemory(2 * items), 20, items)
        assert calls[0] == first
        assert calls[2] - calls[1] == every, items  # the first fit saw fewer


def test_neither_components_nor_memories_grow_without_bound() -> None:
    for tau_plus in (0.9, 0.5, 0.1, 0.001, 1e-9, 5e-324):
        for items in (2, 7, 1024, 8192):
            sizes = mixture_sizes(tau_plus, items)
            assert len(sizes) == len(COMPONENTS_PER_CLASS)
            assert 1 <= min(sizes) <= max(sizes) <= min(items // 2, MOST_COMPONENTS), (
                tau_plus,
                items,
            )
        assert 16 / memory_for(tau_plus) <= tau_plus or memory_for(tau_plus) == 8192
    assert memory_for(1 / 64) == 1024 == memory_for(0.5)
    assert memory_for(1 / 65) == 2048
    memory = ClassMemory(7, refit_every=1)
    for step in range(3):
        memory.remember(*views(4, step), tau_plus=1 / 3)
    assert memory.classes is not None
    assert max(memory.classes.sizes) == 3  # half the items


def test_pairs_that_are_any_two_of_a_class_have_nothing_to_gain() -> None:
    generator = torch.Generator().manual_seed(0)
    poles = torch.eye(3).repeat(200, 1)

    def trust(apart: float, within: float) -> float:
        """Of items that differ so much within a class, and views so much of an item."""
        items = poles + within * torch.randn(600, 3, generator=generator)
        pair = [items + apart * torch.randn(600, 3, generator=generator) for _ in range(2)]
        memory = ClassMemory(600)
        memory.remember(*pair, tau_plus=1 / 3)
        memory.observe(*(memory.outlook(view) for view in pair))
        assert (memory.agreement > 0.9).all()
        return memory.trust

    assert trust(apart=0.1, within=0.0) == 0
    assert trust(apart=0.02, within=0.1) == 1


def test_classes_that_are_too_large_are_not_believed() -> None:
    generator = torch.Generator().manual_seed(0)
    poles = torch.eye(2).repeat(300, 1) + 0.1 * torch.randn(600, 2, generator=generator)
    pair = [poles + 0.02 * torch.randn(600, 2, generator=generator) for _ in range(2)]
    trust = []
    for tau_plus in (0.5, 0.1):  # there are two classes: half of the pairs are of one
        memory = ClassMemory(600)
        memory.remember(*pair, tau_plus=tau_plus)
        memory.observe(*(memory.outlook(view) for view in pair))
        trust.append(memory.trust)
        assert memory.classes.share > 0.25
    assert trust[0] > 0.9
    assert trust[1] == 0


def test_agreement_is_a_moving_average() -> None:
    memory = ClassMemory(64, refit_every=1000)
    memory.remember(*views(64), tau_plus=TAU_PLUS)
    assert memory.trust == 0
    assert memory.trust_by_mixture is None
    assert memory.is_due_to_observe
    expected, looks = None, []
    for seed in range(1, 13):
        rows = views(16, seed)
        memory.observe(*(memory.outlook(some) for some in rows))
        _, now = item_responsibilities(*rows, memory.classes)
        expected = now if expected is None else torch.lerp(now, expected, 0.9**4)
        memory.remember(*rows, tau_plus=TAU_PLUS)
        looks.append(memory.is_due_to_observe)
    assert sum(looks) == 3  # one call in four
    torch.testing.assert_close(memory.get_extra_state()["agreement"], expected)
    assert memory.trust == pytest.approx(float(memory.trust_by_mixture.mean()))


def test_fits_are_seeded_by_the_number_of_calls_alone() -> None:
    fits = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        memory = ClassMemory(24, refit_every=1)
        memory.remember(*views(24), tau_plus=TAU_PLUS)
        fits.append(memory.classes.mixtures.directions)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*fits)


def test_what_is_remembered_takes_no_gradient_and_float32() -> None:
    memory = ClassMemory(24, refit_every=1)
    first, second = (some.double().requires_grad_() for some in views(24))
    memory.remember(first, second, tau_plus=TAU_PLUS)
    tensors = [value for value in memory.get_extra_state().values() if isinstance(value, Tensor)]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert not any(tensor.requires_grad for tensor in tensors)
    assert not list(memory.buffers())  # data parallel training would overwrite them


# ------------------------------------------------------------------------------ labels


def labelled(
    count: int, generator: torch.Generator, *, clusters: int = 6, wrong: float = 0.4
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Views of items in clusters, their labels, and how likely each label is in the cluster.

    An item's label is its cluster's, but for some that have any of the labels.
    """
    cluster = torch.randint(0, clusters, (count,), generator=generator)
    other = torch.randint(0, clusters, (count,), generator=generator)
    labels = torch.where(torch.rand(count, generator=generator) < wrong, other, cluster)
    odds = wrong / clusters + (1 - wrong) * torch.eye(clusters)[cluster]
    items = torch.eye(16)[cluster] + 0.25 * torch.randn(count, 16, generator=generator)
    return (
        [items + 0.05 * torch.randn(count, 16, generator=generator) for _ in range(2)],
        labels,
        odds,
    )


def attracting(memory: ClassMemory, pair: list[Tensor], threshold: float = 0.5) -> Tensor:
    """Which pairs of items attract where all mixtures are trusted."""
    assert memory.classes is not None
    items = sum(class_responsibilities(view, memory.classes) for view in pair) / 2
    trust = torch.ones(len(COMPONENTS_PER_CLASS))
    same = same_class(items, items, trust=trust, transitions=memory.classes.transitions)
    return (same > threshold).triu(1)


def test_the_interval_of_the_precision_holds_the_true_share() -> None:
    held, generator = 0, torch.Generator().manual_seed(0)
    for run in range(30):
        if run % 10 == 0:
            memory = ClassMemory(512)
            memory.remember(*labelled(512, generator)[0], tau_plus=1 / 6)
            pair, _, odds = labelled(800, generator)
            pulls = attracting(memory, pair)
            share = float((pulls * (odds @ odds.T)).sum() / pulls.sum())
            state = memory.get_extra_state()
        memory.set_extra_state(state)
        for _ in range(12):
            pair, labels, _ = labelled(32, generator)
            memory.measure((pair[0], pair[1]), labels, 0.5)
        held += memory.precision.low <= share <= memory.precision.high
        assert memory.precision.high - memory.precision.low < 0.2
    assert held >= 25
    assert Precision.of(0, 0)[1:] == (0.0, 1.0, 0.0)
    assert Precision.of(50, 50) == pytest.approx((0.5, 0.4189, 0.5811, 100), abs=1e-3)


def test_what_labels_say_replaces_agreement_and_owes_nothing_to_the_labels() -> None:
    generator = torch.Generator().manual_seed(0)
    for wrong in (0.0, 1.0):
        memory = ClassMemory(512)
        pair, labels, _ = labelled(512, generator, wrong=wrong)
        memory.remember(*pair, tau_plus=1 / 6, labels=labels)
        memory.observe(*(memory.outlook(view) for view in pair))
        for _ in range(10):
            pair, labels, _ = labelled(40, generator, wrong=wrong)
            memory.measure((pair[0], pair[1]), labels, 0.5)
        assert memory.evidence > 0.9
        # Views agree, so only what labels say can take trust away.
        assert memory.trust > 0.9 if wrong == 0 else memory.trust <= 1 - memory.evidence + 1e-6
    assert memory.precision.high < 0.4
    known = torch.full((40,), -1)
    known[0] = 3
    before = memory.precision
    memory.measure((pair[0], pair[1]), known, 0.5)  # one labelled item makes no pair
    assert memory.precision == before


def test_the_latest_few_of_each_label_are_kept_for_joining() -> None:
    memory = ClassMemory(64)
    for step in range(60):
        labels = torch.arange(40) % 2 + (2 if step == 0 else 0) * (torch.arange(40) < 4)
        memory.remember(*views(40, step), tau_plus=0.001, labels=labels.where(labels >= 0, -1))
    held = memory.get_extra_state()
    assert len(held["labels"]) == len(held["labelled"]) == 1024
    view_1, view_2, labels = memory.latest_of_each_label(20)
    assert labels.bincount().tolist() == [20, 20]
    assert len(view_1) == len(view_2) == 40
    latest = torch.cat(views(40, 59), dim=1)
    assert sorted(torch.cat([view_1, view_2], dim=1).tolist()) == sorted(latest.tolist())


# ------------------------------------------------------------------------------ what it says


def test_it_explains_what_was_found_and_why_it_is_not_trusted_more() -> None:
    generator = torch.Generator().manual_seed(0)
    pair, labels, _ = labelled(600, generator, wrong=0.0)
    memory = ClassMemory(600)
    assert explanation(memory, 1 / 6) == explanation(memory, None)
    assert explanation(memory, 1 / 6).startswith("No call in train() mode yet")
    memory.remember(*(view[:5] for view in pair), tau_plus=1 / 6)
    needed = memory.enough(1 / 6)
    few = f"5 items are remembered, and {needed} are needed for the first fit"
    assert few in explanation(memory, 1 / 6)
    for tau_plus in (1e-6, 5e-324):
        assert "so no classes are looked for" in explanation(memory, tau_plus)
        assert len(explanation(memory, tau_plus)) < 300
    memory.remember(*pair, tau_plus=1 / 6)
    memory.observe(*(memory.outlook(view) for view in pair))
    assert memory.trust > 0.95
    trusted = r"Found about [67] classes in 600 items; trust is 1.00: views and mixtures agree on"
    assert re.match(trusted, explanation(memory, 1 / 6))
    state, ones = memory.get_extra_state(), torch.ones(len(COMPONENTS_PER_CLASS))
    for change, reason in (
        ({"agreement": 0.3 * ones}, r"two views of an item often lie in .* \(agreement 0.3\d\)"),
        (
            {"agreement": 0.4 * ones, "alignment": 0.4 * ones},
            r"coarse and fine mixtures disagree .* \(agreement 0.\d\d\)",
        ),
        ({"share": torch.tensor(0.6)}, "they are 3.6 times as large as expected: several classes"),
        ({"closeness": torch.tensor(0.52)}, r"hardly closer than other members .* \(52% of"),
    ):
        memory.set_extra_state(state | change)
        assert memory.trust < 0.5
        assert re.search(
            rf"trust is 0.\d\d, not more, because .*{reason}", explanation(memory, 1 / 6)
        )
    memory.set_extra_state(state | {"share": torch.tensor(0.0)})
    assert explanation(memory, None).startswith("Found no classes in 600 items: ")
    memory.set_extra_state(state)
    memory.measure((pair[0], pair[1]), labels, 0.5)
    assert re.search(
        r"trust is 1.00. On labelled items, \d+% of .* \(\d\d% to 100%\).$",
        explanation(memory, None),
    )


def test_an_estimate_finds_the_scale_of_classes_and_a_resumed_one_goes_on() -> None:
    items = torch.cat(views(256), dim=1)  # fits at even calls alone, too, look to either side
    fits = (fits_at_scales(items, 1, seed=seed, labelled=None) for seed in range(0, 12, 2))
    assert set().union(*fits) == {0, 1, 2}
    for classes in (5, 14):
        generator, memory = torch.Generator().manual_seed(0), ClassMemory(1024)
        for _ in range(16):
            memory.remember(*labelled(256, generator, clusters=classes)[0], tau_plus=None)
        assert classes / 2 <= 1 / memory.prior <= 2 * classes
        other, state = ClassMemory(1024), memory.get_extra_state()
        other.set_extra_state(state)
        assert state["scale"] < len(SCALES) == len(state["scores"])
        pair = labelled(256, generator, clusters=classes)[0]
        for each in (memory, other):
            for _ in range(8):
                each.remember(*pair, tau_plus=None)
        assert torch.equal(memory.classes.transform, other.classes.transform)
        assert memory.get_extra_state()["scores"] == other.get_extra_state()["scores"]
