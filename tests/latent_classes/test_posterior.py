"""Mixtures of von Mises-Fisher components: against slow loops, in closed form, and at extremes."""

from __future__ import annotations

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import latent as reference
from scipy.special import ive
from torch import Tensor
from torch.nn.functional import normalize

from bayescl import functional as F
from bayescl.latent_classes.fit import component_labels, component_transitions
from bayescl.latent_classes.mixture import (
    MAX_KAPPA,
    fit_mixtures,
    mean_kappa,
    responsibilities,
    start_mixtures,
    unit_rows,
    usable,
)
from bayescl.latent_classes.posterior import (
    class_agreement,
    signature_factors,
    signatures,
    unit_or_nan,
)
from bayescl.latent_classes.trust import (
    mixture_alignment,
    positive_closeness,
    trust_of_agreement,
    view_agreement,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def clusters(
    count: int = 3, rows: int = 40, dim: int = 8, noise: float = 0.2, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Noisy rows around orthogonal directions, and the number of each row's direction."""
    labels = torch.arange(rows) % count
    off = torch.randn(rows, dim, generator=generator(seed), dtype=torch.float64)
    return torch.eye(dim, dtype=torch.float64)[labels] + noise * off, labels


def stays(*sizes: int) -> list[Tensor]:
    """Transitions of components that no view moves between."""
    return [torch.eye(size, dtype=torch.float64) for size in sizes]


def started(rows: Tensor, *sizes: int, source: torch.Generator | None = None) -> F.Mixtures:
    unit, size = unit_rows(rows)
    return start_mixtures(unit, usable(size), sizes, source or generator())


def refitted(rows: Tensor, start: F.Mixtures, iterations: int) -> F.Mixtures:
    unit, size = unit_rows(rows)
    return fit_mixtures(unit, usable(size).to(unit.dtype), start, iterations)


def agreement(view_1: Tensor, view_2: Tensor, classes: F.LatentClasses) -> Tensor:
    return class_agreement(signatures(unit_or_nan(torch.cat([view_1, view_2])), classes), classes)


def factors_of_items(view_1: Tensor, view_2: Tensor, classes: F.LatentClasses) -> Tensor:
    ahead = [signatures(unit_or_nan(view), classes) for view in (view_1, view_2)]
    return signature_factors(sum(ahead) / 2, classes)


def fitted(rows: Tensor, *sizes: int) -> F.Mixtures:
    return refitted(rows, started(rows, *sizes), 10)


def assert_same(first: F.Mixtures, second: F.Mixtures) -> None:
    for name in ("directions", "weights", "kappa"):
        torch.testing.assert_close(getattr(first, name), getattr(second, name))


def test_em_equals_the_slow_loop() -> None:
    rows, _ = clusters(rows=12, dim=4, noise=0.5)
    start = started(rows, 3, 2)
    fit = refitted(rows, start, 3)
    for mixture, columns in enumerate((slice(0, 3), slice(3, 5))):
        directions, weights = list(start.directions[columns]), start.weights[columns].tolist()
        kappa = MAX_KAPPA
        for _ in range(3):
            directions, weights, kappa = reference.em_step(
                list(rows), directions, weights, kappa, MAX_KAPPA
            )
        torch.testing.assert_close(fit.directions[columns], torch.stack(directions))
        assert fit.weights[columns].tolist() == pytest.approx(weights)
        assert float(fit.kappa[mixture]) == pytest.approx(kappa)
        expected = [reference.responsibility(row, directions, weights, kappa) for row in rows]
        torch.testing.assert_close(
            responsibilities(normalize(rows), fit)[:, columns],
            torch.tensor(expected, dtype=torch.float64),
        )


def test_kappa_is_that_of_the_density_whose_mean_has_this_length_up_to_its_largest_value() -> None:
    # The mean's length is a ratio of Bessel functions, which the closed form inverts roughly.
    for dim, kappa in product((16, 128), (1.0, 20.0, 50.0)):
        length = torch.tensor(ive(dim / 2, kappa) / ive(dim / 2 - 1, kappa), dtype=torch.float64)
        assert float(mean_kappa(length, dim=dim)) == pytest.approx(kappa, rel=0.02)
    length = torch.linspace(0, 1, 101, dtype=torch.float64)
    kappa = mean_kappa(length, dim=128)
    assert kappa[[0, -1]].tolist() == [0, 60]
    assert (kappa.diff() >= 0).all()
    assert mean_kappa(torch.tensor(1.0 + 1e-7), dim=3) == 60


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), scale=st.sampled_from([1e-30, 1e-3, 1.0, 1e30]))
def test_neither_order_nor_length_of_rows_matters(seed: int, scale: float) -> None:
    rows, _ = clusters(noise=0.5, seed=seed)
    start = started(rows, 3, source=generator(seed))
    order = torch.randperm(len(rows), generator=generator(seed))
    assert_same(refitted(rows, start, 5), refitted(scale * rows[order], start, 5))


def test_starts_are_different_rows_drawn_in_proportion_to_their_distance() -> None:
    rows = torch.eye(5).repeat(4, 1)
    for seed in range(20):
        start = started(rows, 5, 3, source=generator(seed))
        assert start.directions[:5].sum(dim=0).tolist() == [1.0] * 5
        assert start.directions[5:].sum(dim=0).max() == 1
    # From the first row, the second lies at distance 1 and the third at 2.
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    drawn = [started(rows, 2, source=generator(seed)).directions for seed in range(2000)]
    second = torch.stack([start[1, 0] for start in drawn if start[0, 0] == 1])
    assert float((second == -1).double().mean()) == pytest.approx(2 / 3, abs=0.06)


def test_hopeless_rows_give_finite_mixtures() -> None:
    equal = [torch.full((6, 4), value) for value in (1.0, 0.0, torch.nan, 1e-42, 3e38)]
    for rows in (*equal, torch.eye(4).repeat(2, 1), torch.eye(4)[:3]):
        fit = fitted(rows, 3, 2)
        posterior = responsibilities(torch.eye(4), fit)
        agreed = view_agreement(posterior, posterior, fit.sizes)
        for part in (fit.directions, fit.weights, fit.kappa, posterior, agreed):
            assert part.isfinite().all()


def test_rows_that_are_not_finite_are_ignored() -> None:
    rows, _ = clusters()
    bad = rows.clone()
    bad[::4, 0] = torch.nan
    bad[1::4] = torch.inf
    bad[2::8] = 0
    good = bad[bad.isfinite().all(dim=1) & (bad != 0).any(dim=1)]
    start = started(good, 3)
    assert_same(refitted(bad, start, 5), refitted(good, start, 5))
    for seed in range(10):
        chosen = started(bad, 4, source=generator(seed)).directions
        torch.testing.assert_close(chosen.norm(dim=1), torch.ones(4).double())
    # They have no responsibilities.
    classes = F.fit_latent_classes(*views()[:2], [2], generator=generator())
    rows = torch.tensor([[torch.nan], [0], [1]]).double() * torch.eye(12).double()[:1]
    shares = F.class_responsibilities(rows, classes)
    assert shares[0].isnan().all()
    assert shares[1:].isfinite().all()


def test_agreement_equals_the_slow_loop_and_ignores_items_that_are_not_finite() -> None:
    first, second = torch.rand(2, 7, 5, generator=generator(), dtype=torch.float64)
    result = view_agreement(first, second, [3, 2])
    for mixture, columns in enumerate((slice(0, 3), slice(3, 5))):
        expected = reference.agreement(first[:, columns].tolist(), second[:, columns].tolist())
        assert float(result[mixture]) == pytest.approx(max(-1.0, min(1.0, expected)))
    bad = torch.cat([first, torch.full((2, 5), torch.nan)])
    other = torch.cat([second, second[:2]])
    torch.testing.assert_close(view_agreement(bad, other, [3, 2]), result)
    for flat in (torch.ones(5, 1), torch.full((5, 4), 0.25)):  # one component, or none told apart
        assert view_agreement(flat, flat, [flat.shape[1]]).tolist() == [0.0]


def views(
    count: int = 4, items: int = 120, noise: float = 0.1, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Two views of items of some classes that differ in four loud directions of no meaning."""
    source = generator(seed)
    labels = torch.arange(items) % count
    both = []
    for _ in range(2):
        view = torch.eye(12, dtype=torch.float64)[labels]
        view += noise * torch.randn(items, 12, generator=source, dtype=torch.float64)
        view[:, 8:] += torch.randn(items, 4, generator=source, dtype=torch.float64)
        both.append(view)
    return both[0], both[1], labels


def separation(posterior: Tensor, labels: Tensor) -> float:
    """Mean posterior of pairs of one class, less that of other pairs."""
    same = labels[:, None] == labels
    return float(posterior[same].mean() - posterior[~same].mean())


def test_directions_that_differ_between_views_do_not_count() -> None:
    view_1, view_2, labels = views()
    rows = normalize(unit_rows(view_1)[0] + unit_rows(view_2)[0])
    plain = responsibilities(rows, fitted(rows, 4, 6))
    classes = F.fit_latent_classes(view_1, view_2, [4, 6], generator=generator())
    factors = factors_of_items(view_1, view_2, classes)
    found = separation(factors @ factors.T, labels)
    assert found > 0.7
    assert found > separation(reference.posterior(plain, plain, stays(4, 6)), labels) + 0.2
    assert (agreement(view_1, view_2, classes) > 0.8).all()


def test_classes_with_gaps_are_trusted_and_neither_a_cloud_nor_views_that_share_nothing() -> None:
    view_1, view_2, _ = views(items=400)
    shuffled = view_2[torch.randperm(400, generator=generator())]
    source = generator()
    cloud = torch.randn(400, 24, generator=source)
    near = cloud + 0.05 * torch.randn(400, 24, generator=source)
    for first, second, trusted in (
        (view_1, view_2, True),
        (view_1, shuffled, False),
        (cloud, near, False),
    ):
        classes = F.fit_latent_classes(first, second, [8, 12, 16], generator=generator())
        trust = trust_of_agreement(agreement(first, second, classes))
        assert (trust > 0.9).all() if trusted else (trust == 0).all()
    shares = [F.class_responsibilities(view, classes) for view in (cloud, near)]
    assert (view_agreement(*shares, classes.sizes) > 0.5).all()  # in a cloud mixtures disagree


def test_the_metric_undoes_the_scatter_of_views_and_of_components() -> None:
    # With a single component the two scatters are those of differences and of rows.
    view_1, view_2, _ = views()
    classes = F.fit_latent_classes(view_1, view_2, [1], generator=generator())
    first, second = (view / view.norm(dim=1, keepdim=True) for view in (view_1, view_2))
    rows = (first + second) / (first + second).norm(dim=1, keepdim=True)
    torch.testing.assert_close(classes.center, rows.mean(dim=0))
    scatter = torch.zeros(12, 12, dtype=torch.float64)
    for part in (first - second, rows - rows.mean(dim=0)):
        scatter += part.T @ part / part.square().sum()
    mean = scatter.trace() / 12
    expected = torch.linalg.inv(scatter / mean + 0.3 * torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(classes.transform @ classes.transform.T, expected)


def test_hopeless_views_give_finite_classes() -> None:
    one, other, _ = (value.float() for value in views(items=16))
    lone = one[:1].expand(16, -1)
    constant = [(torch.full_like(one, value), other) for value in (torch.nan, 0.0, 1e-42)]
    for view_1, view_2 in ((one, one), (lone, lone), (one, -one), *constant):
        classes = F.fit_latent_classes(view_1, view_2, [3, 5], generator=generator())
        parts = (classes.center, classes.transform, *classes.transitions, classes.alignment)
        assert all(part.isfinite().all() for part in parts)
        assert agreement(view_1, view_2, classes).isfinite().all()


def test_items_that_are_not_finite_are_ignored() -> None:
    view_1, view_2, _ = views()
    bad_1 = torch.cat([view_1, torch.full((3, 12), torch.nan).double()])
    bad_2 = torch.cat([view_2, view_2[:3]])
    clean = F.fit_latent_classes(view_1, view_2, [1], generator=generator())
    other = F.fit_latent_classes(bad_1, bad_2, [1], generator=generator())
    torch.testing.assert_close(clean.transform, other.transform)
    torch.testing.assert_close(clean.mixtures.directions, other.mixtures.directions)
    assert F.class_responsibilities(bad_1, other)[-3:].isnan().all()


def test_items_have_the_mean_of_their_views_and_views_and_mixtures_must_agree() -> None:
    view_1, view_2, _ = views()
    classes = F.fit_latent_classes(view_1, view_2, [3, 5], generator=generator())
    shares = [F.class_responsibilities(view, classes) for view in (view_1, view_2)]
    # A signature is the direction of where further views would lie after two moves.
    ends = torch.block_diag(*(moves @ moves for moves in classes.transitions))
    first, second = (
        torch.cat([normalize(part) for part in (share @ ends).split([3, 5], dim=1)], dim=1)
        for share in shares
    )
    expected = view_agreement(first, second, classes.sizes) * classes.alignment
    torch.testing.assert_close(agreement(view_1, view_2, classes), expected)
    factors, items = factors_of_items(view_1, view_2, classes), sum(shares) / 2
    posterior = reference.posterior(items, items, classes.transitions)
    torch.testing.assert_close(factors @ factors.T, posterior)


def test_labels_name_components_as_far_as_labelled_items_lie_in_them() -> None:
    shares = torch.tensor([[1.0, 0, 0], [1, 0, 0], [0, 1, 0]]).repeat(1, 2)
    known = component_labels(shares, torch.tensor([0, 0, 3]), [3, 3])
    sure = torch.tensor([[6 / 7, 0], [0, 6 / 7], [0, 0]])
    torch.testing.assert_close(known, torch.block_diag(sure, sure))


def test_closeness_equals_the_slow_loop() -> None:
    similarity, same = torch.rand(2, 9, 9, generator=generator(3))
    similarity = similarity.mul(4).round()  # with ties
    won = [
        0.5 * (similarity[i, j] == similarity[i, i]) + (similarity[i, j] < similarity[i, i])
        for i, j in product(range(9), range(9))
        if i != j and same[i, j] > 0.5
    ]
    found = positive_closeness(similarity, same)
    assert float(found) == pytest.approx(float(sum(won) / len(won)))
    for nobody in (torch.eye(3), torch.zeros(0, 0)):  # to compare with
        assert positive_closeness(nobody, nobody) == 1


def test_the_share_of_pairs_is_the_mean_posterior() -> None:
    both = torch.randn(2, 30, 4, generator=generator(4))
    classes = F.fit_latent_classes(*both, [3, 5], generator=generator())
    factors = factors_of_items(*both, classes)
    posterior = factors @ factors.T
    others = ~torch.eye(30, dtype=torch.bool)
    torch.testing.assert_close(classes.share, posterior[others].mean())


def test_alignment_equals_the_slow_loop_and_ignores_items_that_are_not_finite() -> None:
    items = torch.rand(7, 9, generator=generator(), dtype=torch.float64)
    expected = reference.alignment([part.tolist() for part in torch.split(items, [4, 2, 3], dim=1)])
    for rows in (items, torch.cat([items, torch.full((2, 9), torch.nan)])):
        assert mixture_alignment(rows, [4, 2, 3]).tolist() == pytest.approx(expected)
    assert mixture_alignment(torch.eye(3), [3]).tolist() == [1.0]  # no other
    assert mixture_alignment(torch.ones(6, 4), [2, 2]).tolist() == [0.0, 0.0]


def test_transitions_and_the_posterior_equal_the_slow_loop() -> None:
    first, second = torch.rand(2, 4, 5, generator=generator(), dtype=torch.float64)
    moves = component_transitions(first, second, [3, 2])
    for matrix, columns in zip(moves, (slice(0, 3), slice(3, 5)), strict=True):
        slow = reference.transitions(first[:, columns].tolist(), second[:, columns].tolist())
        torch.testing.assert_close(matrix, torch.tensor(slow, dtype=torch.float64))
    view_1, view_2, _ = views(items=9)
    classes = F.fit_latent_classes(view_1, view_2, [3, 2], generator=generator())
    shares = [F.class_responsibilities(view, classes) for view in (view_1, view_2)]
    posterior = F.same_class(view_1, view_2, classes)
    for i, j in product(range(9), range(9)):
        expected = 0.0
        for matrix, columns in zip(classes.transitions, (slice(0, 3), slice(3, 5)), strict=True):
            rows = shares[0][i, columns].tolist(), shares[1][j, columns].tolist()
            expected += reference.same_class(*rows, matrix.tolist()) / 2
        assert float(posterior[i, j]) == pytest.approx(expected)
    bad = torch.full_like(view_1[:1], torch.nan)
    assert not F.same_class(bad, view_2, classes).any()
    # A row is surely of its own class.
    torch.testing.assert_close(F.same_class(view_1, view_1, classes).diagonal().min().item(), 1.0)


def test_arguments_that_do_not_fit_are_refused() -> None:
    rows = torch.eye(3)

    def fit(sizes: list[int], rows: Tensor = rows) -> F.LatentClasses:
        return F.fit_latent_classes(rows, rows, sizes, generator=generator())

    classes = fit([2])
    for call, message in (
        (lambda: fit([2, 4]), "at most the number of rows, got 4 components for 3 rows"),
        (lambda: fit([]), "at least one mixture"),
        (lambda: fit([0]), "sizes must be a whole number of at least 1, got 0"),
        (lambda: fit([2], rows.long()), "rows must hold floating-point numbers"),
        *(
            (call, r"rows must have shape \[rows, 3\], got \[2, 4\]")
            for call in (
                lambda: F.class_responsibilities(torch.ones(2, 4), classes),
                lambda: F.same_class(rows, torch.ones(2, 4), classes),
            )
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
