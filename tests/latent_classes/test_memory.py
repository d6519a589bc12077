"""What the latent-class loss remembers, and when it fits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from bayescl.batch import in_batch, reversed_pairs, sampled, two_views
from bayescl.latent_classes.explain import Reason
from bayescl.latent_classes.fit import (
    COMPONENTS_PER_CLASS,
    MOST_COMPONENTS,
    SCALES,
    default_memory,
    fits_at_scales,
    memory_for,
    mixture_sizes,
)
from bayescl.latent_classes.labelled import LabelledItems
from bayescl.latent_classes.memory import ClassMemory
from bayescl.latent_classes.posterior import class_agreement, signatures, unit_or_nan
from bayescl.latent_classes.trust import Precision

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
            ahead = signatures(unit_or_nan(torch.cat(rows)), memory.classes)
            now = class_agreement(ahead, memory.classes)
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


# ------------------------------------------------------------------------------ posterior


def trained(generator: torch.Generator, wrong: float = 0.0, **known: Any) -> ClassMemory:
    """A memory of clusters that views and mixtures agree on, so only labels can doubt them."""
    memory = ClassMemory(512)
    for _ in range(3):
        pair, labels = labelled(512, generator, wrong=wrong)
        update(memory, pair, 1 / 6, **dict.fromkeys(known, labels))
    return memory


def test_rows_get_the_signature_of_their_item_in_every_layout() -> None:
    generator = torch.Generator().manual_seed(0)
    memory = trained(generator)
    (first, second), _ = labelled(8, generator)
    extra = labelled(5, generator)[0][0]
    batch = two_views(first, second)
    assert ClassMemory(512).posterior(batch) is batch
    known = memory.posterior(batch)
    assert known.columns == (known.anchors,)
    assert known.trust == pytest.approx(memory.trust)
    assert memory.trust > 0.9

    def factors(*rows: Tensor) -> Tensor:
        """Of items with these views: for a single row its own."""
        return memory._factors(sum(memory._signatures(view) for view in rows) / len(rows))

    items = factors(first, second)
    torch.testing.assert_close(known.anchors.factors, items.repeat(2, 1))
    torch.testing.assert_close(known.positives.factors, items.repeat(2, 1))
    assert (known.anchors.factors @ known.anchors.factors.T).max() <= 1 + 1e-6
    known = memory.posterior(in_batch(first, second, extra=extra, of_extra={}))
    for rows in (known.anchors, known.positives, known.columns[0]):
        torch.testing.assert_close(rows.factors, items)
    torch.testing.assert_close(known.columns[1].factors, factors(extra))
    own = extra.repeat(8, 1, 1)
    known = memory.posterior(sampled(first, second, own, of_candidates={}))
    torch.testing.assert_close(known.anchors.factors, items)
    torch.testing.assert_close(known.columns[0].factors, factors(extra).repeat(8, 1, 1))
    # Several positives of an anchor: each pair is an item, and the anchor is the mean of its own.
    place = torch.arange(8) // 2
    known = memory.posterior(in_batch(first[:4], second, anchor_of=place, of_extra={}))
    torch.testing.assert_close(known.positives.factors, factors(first[place], second))
    pairs = memory._signatures(first[place]) + memory._signatures(second)
    mean = memory._factors(pairs.unflatten(0, (4, 2)).mean(dim=1) / 2)
    torch.testing.assert_close(known.anchors.factors, mean)
    # Both directions share them.
    turned = reversed_pairs(known, None, None)
    assert torch.equal(turned.anchors.factors, known.positives.factors)


def test_pairs_are_remembered_with_their_anchors() -> None:
    (first, second), of = views(8), torch.arange(8) // 2
    memory = ClassMemory(16)
    memory.update(in_batch(first[:4], second, anchor_of=of, of_extra={}), tau_plus=1e-3)
    assert torch.equal(memory.latest(16), torch.cat([first[of], second], dim=1))


# ------------------------------------------------------------------------------ labels


def labelled(
    count: int, generator: torch.Generator, *, clusters: int = 6, wrong: float = 0.4
) -> tuple[list[Tensor], Tensor]:
    """Views of items in clusters, and their labels: the cluster's, but for some that have any."""
    cluster, other = torch.randint(0, clusters, (2, count), generator=generator)
    labels = torch.where(torch.rand(count, generator=generator) < wrong, other, cluster)
    items = torch.eye(16)[cluster] + 0.25 * torch.randn(count, 16, generator=generator)
    pair = [items + 0.05 * torch.randn(count, 16, generator=generator) for _ in range(2)]
    return pair, labels


def test_the_interval_of_the_precision_holds_the_true_share_although_items_come_again() -> None:
    held = moments = 0
    for seed, (wrong, per_class) in enumerate(product((0.1, 0.6, 1.0), (3, 8))):
        generator = torch.Generator().manual_seed(seed)
        pair, labels = labelled(600, generator, wrong=wrong)
        rank = (F.one_hot(labels).cumsum(dim=0) * F.one_hot(labels)).sum(dim=1)
        audit = labels.where(rank <= per_class, -1)
        memory = ClassMemory(512)
        for step in range(30):
            if step % 6 == 0:  # an epoch
                order = torch.randperm(600, generator=generator).view(6, 100)
            at = order[step % 6]
            update(memory, [view[at] for view in pair], 1 / 6, audit=audit[at])
            if step < 12 or step % 3:
                continue
            factors = memory._factors(sum(memory._signatures(view) for view in pair) / 2)
            attracts = (factors @ factors.T > 0.5).fill_diagonal_(False)
            same = labels[:, None] == labels
            share = float((attracts & same).sum() / attracts.sum())
            held += memory.precision.low <= share <= memory.precision.high
            moments += 1
    assert moments == 36
    assert held / moments >= 0.85


def test_a_precision_is_bayes_rule_over_pairs_of_different_labels() -> None:
    def measured(
        among: Tensor, labels: list[int], share: float = 1.0, at_once: bool = True
    ) -> Precision | None:
        calls = torch.arange(len(labels)) * (not at_once)
        items = LabelledItems(torch.zeros(len(labels), 2), torch.tensor(labels), calls)
        others = torch.rand(len(labels), 1000, generator=torch.Generator().manual_seed(0)) < share
        return Precision.of_pairs(among, others, items, prior=0.5)

    labels = [0, 0, 1, 1, 2]
    every, none = torch.ones(5, 5, dtype=torch.bool), torch.zeros(5, 5, dtype=torch.bool)
    # Whom one attracts says nothing of its class: 9 of 25 pairs are of one.
    assert measured(every, labels).value == pytest.approx(9 / 25)
    assert measured(none, labels).value == 1
    assert measured(every, [0] * 5) is measured(none, labels, share=0.0) is None
    # Pairs of one label do not count, as they may be the same item.
    same = torch.tensor(labels)[:, None] == torch.tensor(labels)
    assert measured(same, labels) == measured(none, labels)
    # The interval narrows with items, not with how often they come again.
    many, few = (
        measured(none.repeat(8, 8)[:36, :36], [*range(3)] * 12, 0.3, at_once)
        for at_once in (True, False)
    )
    assert few.low < many.low < many.value == 1


def test_items_that_audit_are_recent_or_the_latest_two_of_their_label() -> None:
    memory = ClassMemory(18)  # three calls
    for step, labels in enumerate(([0, 0, 0, 1, 1, 2], [0, 1, 3, 3, -1, -1], [-1] * 6, [-1] * 6)):
        update(memory, views(6, step), 1e-3, audit=torch.tensor(labels))
    assert memory.audited.labels.bincount().tolist() == [4, 3, 1, 2]
    update(memory, views(6, 4), 1e-3, audit=torch.tensor([2, 2, -1, -1, -1, -1]))
    assert memory.audited.labels.bincount().tolist() == [2, 2, 2, 2]
    assert memory.audited.num_different == 8
    assert memory.labelled is None
    update(memory, views(30, 5), 1e-3, audit=torch.zeros(30, dtype=torch.long))
    assert memory.audited.labels.bincount().tolist() == [20, 2, 2, 2]


def test_labels_that_audit_change_trust_alone_and_say_so() -> None:
    generator = torch.Generator().manual_seed(0)
    for wrong in (0.0, 1.0):
        plain, memory = ClassMemory(512), ClassMemory(512)
        for _ in range(4):
            pair, labels = labelled(512, generator, wrong=wrong)
            update(plain, pair, 1 / 6)
            update(memory, pair, 1 / 6, audit=labels)
        state, other = plain.get_extra_state(), memory.get_extra_state()
        same = [name for name in state if not name.startswith("audited")]
        assert all(
            torch.equal(*map(torch.as_tensor, (state[n], other[n])))
            for n in same
            if state[n] is not None
        )
        assert plain.trust > 0.9
        assert plain.measured_strength is None
        assert "not measured: pass audit labels" in str(plain.explain(None))
        found = memory.explain(None)
        if wrong == 0:
            assert memory.trust == memory.measured_strength == 1
            assert found.reason is Reason.TRUSTED
            assert memory.posterior(two_views(*pair)).is_measured
        else:
            assert memory.trust == memory.measured_strength == 0
            assert found.reason is Reason.AUDIT
            assert re.search(r"audit labels say so. On audit labels, \d+% of att", str(found))
        assert found.precision == memory.precision
        assert set(memory.metrics()) == {"trust", "precision", "precision_low", "precision_high"}
        resumed = ClassMemory(512)
        resumed.set_extra_state(other)
        assert resumed.precision == memory.precision


# ------------------------------------------------------------------------------ what it says


def test_it_explains_what_was_found_and_why_it_is_not_trusted_more() -> None:
    generator = torch.Generator().manual_seed(0)
    pair, _ = labelled(600, generator, wrong=0.0)
    memory = ClassMemory(600)
    assert memory.explain(1 / 6).reason is memory.explain(None).reason is Reason.NOTHING_REMEMBERED
    update(memory, [view[:5] for view in pair], 1 / 6)
    found = memory.explain(1 / 6)
    assert (found.reason, found.num_items) == (Reason.TOO_FEW_ITEMS, 5)
    assert f"5 items are remembered, and {memory.enough(1 / 6)} are needed" in str(found)
    for tau_plus in (1e-6, 5e-324):
        found = memory.explain(tau_plus)
        assert found.reason is Reason.TOO_MANY_CLASSES
        assert not found.is_fitted
        assert len(str(found)) < 300
    for _ in range(2):
        update(memory, pair, 1 / 6)
    found = memory.explain(1 / 6)
    assert found.reason is Reason.TRUSTED
    assert re.match(r"Found about [67] classes in 600 items; trust is 1.00: views and", str(found))
    state, ones = memory.get_extra_state(), torch.ones(len(COMPONENTS_PER_CLASS))
    for change, reason, reading in (
        ({"agreement": 0.3 * ones}, Reason.VIEWS_DIFFER, 0.3),
        ({"agreement": 0.4 * ones, "alignment": 0.4 * ones}, Reason.MIXTURES_DIFFER, 0.4),
        ({"share": torch.tensor(0.6)}, Reason.CLASSES_TOO_LARGE, 3.6),
        ({"closeness": torch.tensor(0.52)}, Reason.POSITIVES_NOT_CLOSER, 0.52),
    ):
        memory.set_extra_state(state | change)
        found = memory.explain(None)
        assert (found.reason, found.trust) == (reason, pytest.approx(memory.trust))
        assert found.trust < 0.5
        assert found.reading == pytest.approx(reading, abs=0.02)
        assert "not more, because" in str(found)
    memory.set_extra_state(state | {"share": torch.tensor(0.0)})
    assert memory.explain(None).reason is Reason.NO_CLASSES


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
