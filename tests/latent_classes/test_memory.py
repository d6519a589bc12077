"""What the latent-class loss remembers, and when it fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from bayescl.batch import two_views
from bayescl.functional import item_responsibilities
from bayescl.latent_classes.fit import (
    COMPONENTS_PER_CLASS,
    MOST_COMPONENTS,
    SCALES,
    default_memory,
    fits_at_scales,
    memory_for,
    mixture_sizes,
)
from bayescl.latent_classes.memory import ClassMemory

TAU_PLUS = 0.5
SIZES = tuple(round(each / TAU_PLUS) for each in COMPONENTS_PER_CLASS)


def views(count: int, seed: int = 0, dim: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(count, dim, generator=generator)
    return items, items + 0.1 * torch.randn(count, dim, generator=generator)


def update(
    memory: ClassMemory, pair: Sequence[Tensor], tau_plus: float | None = TAU_PLUS, **known: Any
) -> None:
    memory.update(two_views(*pair, **known), tau_plus=tau_plus)


def test_the_newest_items_are_kept_with_both_views() -> None:
    for steps in ((3, 4), (5, 5, 5), (2, 9, 2), (10, 30, 4), (10,)):
        memory, seen = ClassMemory(10, refit_every=100), []
        for step, count in enumerate(steps):
            update(memory, views(count, step), 0.001)
            seen.append(torch.cat(views(count, step), dim=1))
        newest = torch.cat(seen)[-10:]
        assert torch.equal(memory.latest(10), newest)
        assert memory.calls == len(steps)


def calls_of_fits(memory: ClassMemory, calls: int, items: int = 6) -> list[int]:
    """The calls, each with so many items, that end in a fit."""
    found, before = [], None
    for call in range(1, calls + 1):
        update(memory, views(items, call))
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
    # The number of classes changes nothing about what is remembered, unless there are very many.
    assert default_memory(None) == default_memory(0.5) == default_memory(1 / 256) == 4096
    assert default_memory(1 / 257) == 8192
    memory = ClassMemory(7, refit_every=1)
    for step in range(3):
        update(memory, views(4, step), 1 / 3)
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
        for _ in range(2):  # the second call judges the fit after the first
            update(memory, pair, 1 / 3)
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
        for _ in range(2):
            update(memory, pair, tau_plus)
        trust.append(memory.trust)
        assert memory.classes.share > 0.25
    assert trust[0] > 0.9
    assert trust[1] == 0


def test_agreement_is_a_moving_average() -> None:
    memory = ClassMemory(64, refit_every=1000)
    update(memory, views(64))
    assert memory.trust == 0
    assert memory.trust_by_mixture is None
    expected, looks = None, 0
    for seed in range(1, 13):
        rows = views(16, seed)
        before = memory.agreement
        update(memory, rows)
        if memory.agreement is not before:
            looks += 1
            _, now = item_responsibilities(*rows, memory.classes)
            expected = now if expected is None else torch.lerp(now, expected, 0.9**4)
    assert looks == 1 + 3  # the first call after a fit, then one in four
    torch.testing.assert_close(memory.get_extra_state()["agreement"], expected)
    assert memory.trust == pytest.approx(float(memory.trust_by_mixture.mean()))


def test_fits_are_seeded_by_the_number_of_calls_alone() -> None:
    fits = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        memory = ClassMemory(24, refit_every=1)
        update(memory, views(24))
        fits.append(memory.classes.mixtures.directions)
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*fits)


def test_what_is_remembered_takes_no_gradient_and_float32() -> None:
    memory = ClassMemory(24, refit_every=1)
    first, second = (some.double().requires_grad_() for some in views(24))
    update(memory, (first, second))
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


def test_an_estimate_finds_the_scale_of_classes_and_a_resumed_one_goes_on() -> None:
    items = torch.cat(views(256), dim=1)  # fits at even calls alone, too, look to either side
    fits = (fits_at_scales(items, 1, seed=seed, labelled=None) for seed in range(0, 12, 2))
    assert set().union(*fits) == {0, 1, 2}
    for classes in (5, 14):
        generator, memory = torch.Generator().manual_seed(0), ClassMemory(1024)
        for _ in range(16):
            update(memory, labelled(256, generator, clusters=classes)[0], None)
        assert classes / 2 <= 1 / memory.prior <= 2 * classes
        other, state = ClassMemory(1024), memory.get_extra_state()
        other.set_extra_state(state)
        assert state["scale"] < len(SCALES) == len(state["scores"])
        pair = labelled(256, generator, clusters=classes)[0]
        for each in (memory, other):
            for _ in range(8):
                update(each, pair, None)
        assert torch.equal(memory.classes.transform, other.classes.transform)
        assert memory.get_extra_state()["scores"] == other.get_extra_state()["scores"]
