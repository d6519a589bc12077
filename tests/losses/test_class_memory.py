"""What the latent-class loss remembers, and when it fits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bayescl.functional import class_agreement, class_responsibilities
from bayescl.losses.class_memory import COMPONENTS_PER_CLASS, ClassMemory, memory_for

TAU_PLUS = 0.5
SIZES = tuple(round(each / TAU_PLUS) for each in COMPONENTS_PER_CLASS)


def views(count: int, seed: int = 0, dim: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    items = torch.randn(count, dim, generator=generator)
    return items, items + 0.1 * torch.randn(count, dim, generator=generator)


@pytest.mark.parametrize("steps", [(3, 4), (5, 5, 5), (2, 9, 1), (10, 30, 4), (10,)])
def test_the_newest_items_are_kept_with_both_views(steps: tuple[int, ...]) -> None:
    memory, seen = ClassMemory(10, refit_every=100), []
    for step, count in enumerate(steps):
        memory.remember(*views(count, step), tau_plus=0.001)
        seen.append(torch.cat(views(count, step), dim=1))
    newest = torch.cat(seen)[-10:]
    assert memory.items is not None
    assert memory.items.shape == newest.shape
    # The order says nothing about their age.
    assert sorted(memory.items.tolist()) == sorted(newest.tolist())
    assert memory.calls == len(steps)


def test_it_fits_once_there_are_enough_items_and_then_every_few_calls() -> None:
    memory, fits = ClassMemory(64, refit_every=3), []
    for step in range(12):
        memory.remember(*views(6, step), tau_plus=TAU_PLUS)
        fits.append(memory.classes)
    assert max(SIZES) == 12
    changed = [step + 1 for step in range(1, 12) if fits[step] is not fits[step - 1]]
    assert changed == [4, 6, 9, 12]  # two items for each of 12 components; multiples of three
    assert fits[-1].sizes == SIZES


def test_by_default_a_fit_lasts_for_twice_the_items_that_it_saw() -> None:
    memory, fits = ClassMemory(24), []
    for step in range(20):
        memory.remember(*views(6, step), tau_plus=TAU_PLUS)
        fits.append(memory.classes)
    changed = [step + 1 for step in range(1, 20) if fits[step] is not fits[step - 1]]
    assert changed == [4, 12, 20]  # 24 items by the fourth call; 48 more come in eight


def test_components_never_outnumber_half_the_items() -> None:
    memory = ClassMemory(7, refit_every=1)
    for step in range(3):
        memory.remember(*views(4, step), tau_plus=0.01)
    assert memory.classes is not None
    assert memory.classes.sizes == (3, 3, 3, 3)


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


def test_the_latest_items_are_compared() -> None:
    memory = ClassMemory(24, refit_every=1)
    for step in range(3):
        memory.remember(*views(10, step), tau_plus=TAU_PLUS)
    expected = torch.cat([torch.cat(views(10, step), dim=1) for step in range(3)])[-24:]
    assert torch.equal(memory._in_order(), expected)


def test_agreement_is_a_moving_average() -> None:
    memory = ClassMemory(24, refit_every=100)
    memory.remember(*views(24), tau_plus=TAU_PLUS)
    assert memory.trust == 0
    assert memory.trust_by_mixture is None
    expected = None
    for seed in range(1, 4):
        rows = views(16, seed)
        memory.observe(*(memory.outlook(some) for some in rows))
        shares = (class_responsibilities(some, memory.classes) for some in rows)
        now = class_agreement(*shares, memory.classes)
        expected = now if expected is None else 0.9 * expected + 0.1 * now
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


def test_nothing_is_known_of_rows_that_are_not_finite() -> None:
    memory = ClassMemory(24, refit_every=100)
    memory.remember(*views(24), tau_plus=TAU_PLUS)
    rows = views(4, 1)[0]
    outlook = memory.outlook(rows)
    memory.observe(outlook, outlook)
    assert memory.trust > 0
    rows[2, 1] = torch.nan
    outlook = memory.outlook(rows)
    assert outlook[2].isnan().all()
    factors = memory.factors(outlook)
    assert torch.equal(factors[2], torch.zeros(sum(SIZES)))
    assert (factors[[0, 1, 3]].sum(dim=1) > 0).all()


def test_what_is_remembered_takes_no_gradient_and_float32() -> None:
    memory = ClassMemory(24, refit_every=1)
    first, second = (some.double().requires_grad_() for some in views(24))
    memory.remember(first, second, tau_plus=TAU_PLUS)
    tensors = [value for value in memory.get_extra_state().values() if isinstance(value, Tensor)]
    assert {tensor.dtype for tensor in tensors} == {torch.float32}
    assert not any(tensor.requires_grad for tensor in tensors)
    assert not list(memory.buffers())  # data parallel training would overwrite them


@pytest.mark.parametrize(
    ("tau_plus", "size"), [(0.5, 1024), (0.1, 1024), (1 / 64, 1024), (1 / 65, 2048), (1e-9, 16384)]
)
def test_a_memory_holds_sixteen_items_of_a_class(tau_plus: float, size: int) -> None:
    assert memory_for(tau_plus) == size
