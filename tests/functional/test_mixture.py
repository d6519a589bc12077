"""Densities, CDFs and the root, by integration and closed form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from bayescl import functional as F

ALPHAS = [0.5, 0.7, 0.9, 1.0]
alphas = st.floats(0.5, 1.0)
tau_pluses = st.floats(0.0, 0.99)


def integral(density: Callable[..., torch.Tensor], upper: float = 12.0) -> float:
    """Integrate a density built on the standard normal proposal up to ``upper``."""

    def value(x: float) -> float:
        proposal = torch.tensor(stats.norm.pdf(x), dtype=torch.float64)
        cdf = torch.tensor(stats.norm.cdf(x), dtype=torch.float64)
        return density(proposal, cdf).item()

    return integrate.quad(value, -12.0, upper, epsabs=1e-11)[0]


def densities(alpha: float) -> dict[str, Callable[..., torch.Tensor]]:
    beta = 0.8 if alpha == 1 else 1.0
    return {
        "minimum": F.minimum_density,
        "maximum": F.maximum_density,
        "true negative": partial(F.true_negative_density, alpha=alpha),
        "false negative": partial(F.false_negative_density, alpha=alpha),
        "unlabeled": partial(F.unlabeled_density, alpha=alpha, tau_plus=0.1),
        "hard negative": partial(F.hard_negative_density, alpha=alpha, beta=beta),
    }


@each("alpha", ALPHAS)
@each("name", list(densities(0.5)))
def test_every_density_integrates_to_one(name: str, alpha: float) -> None:
    assert integral(densities(alpha)[name]) == pytest.approx(1, abs=1e-9)


@each("alpha", ALPHAS)
@each("x", [-1.3, 0.0, 0.4, 2.2])
def test_every_cdf_is_the_integral_of_its_density(alpha: float, x: float) -> None:
    cdf = torch.tensor(stats.norm.cdf(x), dtype=torch.float64)
    at = densities(alpha)
    assert F.true_negative_cdf(cdf, alpha=alpha).item() == pytest.approx(
        integral(at["true negative"], x), abs=1e-9
    )
    assert F.false_negative_cdf(cdf, alpha=alpha).item() == pytest.approx(
        integral(at["false negative"], x), abs=1e-9
    )
    assert F.unlabeled_cdf(cdf, alpha=alpha, tau_plus=0.1).item() == pytest.approx(
        integral(at["unlabeled"], x), abs=1e-9
    )


def test_order_statistics_are_those_of_a_drawn_pair() -> None:
    pair = torch.rand(200_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    below = (pair.min(dim=1).values < 0.3).double().mean()
    # Integrating 2 (1 - x) over [0, 0.3] gives 0.51.
    assert below.item() == pytest.approx(0.51, abs=5e-3)
    grid = torch.linspace(0, 0.3, 3001, dtype=torch.float64)
    area = torch.trapezoid(F.minimum_density(torch.ones_like(grid), grid), grid)
    assert area.item() == pytest.approx(0.51, abs=1e-9)


@settings(deadline=None)
@given(alpha=alphas, tau_plus=tau_pluses, level=st.floats(0, 1))
def test_quantiles_invert_the_cdfs(alpha: float, tau_plus: float, level: float) -> None:
    value = torch.tensor([level], dtype=torch.float64)
    for quantile, cdf, given_ in (
        (F.true_negative_quantile, F.true_negative_cdf, {}),
        (F.false_negative_quantile, F.false_negative_cdf, {}),
        (F.proposal_cdf, F.unlabeled_cdf, {"tau_plus": tau_plus}),
    ):
        point = quantile(value, alpha=alpha, **given_)
        assert 0 <= point.item() <= 1
        torch.testing.assert_close(cdf(point, alpha=alpha, **given_), value, rtol=0, atol=1e-14)


@each(("alpha", "tau_plus"), [(0.9, 0.1), (0.7, 0.01), (1.0, 0.3), (0.6, 0.8)])
def test_proposal_cdf_equals_the_textbook_root(alpha: float, tau_plus: float) -> None:
    u = torch.linspace(0, 1, 101, dtype=torch.float64)
    a = (1 - 2 * alpha) * (1 - 2 * tau_plus)
    b = 2 * (alpha * (1 - tau_plus) + (1 - alpha) * tau_plus)
    textbook = (-b + (b * b + 4 * a * u).sqrt()) / (2 * a)
    ours = F.proposal_cdf(u, alpha=alpha, tau_plus=tau_plus)
    torch.testing.assert_close(ours, textbook, rtol=1e-12, atol=1e-14)


def test_proposal_cdf_is_exact_where_the_textbook_root_divides_by_zero_and_continuous() -> None:
    u = torch.linspace(0, 1, 11)
    for alpha, tau_plus in ((0.5, 0.1), (0.9, 0.5), (0.5, 0.5)):
        exact = F.proposal_cdf(u, alpha=alpha, tau_plus=tau_plus)
        torch.testing.assert_close(exact, u, rtol=1e-6, atol=0)
    for nudge in (1e-3, 1e-6, 1e-9, 1e-12):
        near = F.proposal_cdf(u, alpha=0.5 + nudge, tau_plus=0.1)
        torch.testing.assert_close(near, u, rtol=0, atol=2 * nudge + 2e-7)


@each("alpha", ALPHAS)
@each("tau_plus", [0.0, 0.1, 0.5, 0.9])
def test_proposal_cdf_rises_from_zero_to_one(alpha: float, tau_plus: float) -> None:
    u = torch.linspace(0, 1, 1001, dtype=torch.float64)
    proposal = F.proposal_cdf(u, alpha=alpha, tau_plus=tau_plus)
    assert proposal[0] == 0
    assert proposal[-1] == 1
    assert (proposal.diff() > 0).all()


@each(
    ("call", "message"),
    [
        (lambda u: F.proposal_cdf(u, alpha=0.4, tau_plus=0.1), r"alpha must lie in \[0.5, 1\]"),
        (lambda u: F.proposal_cdf(u, alpha=1.1, tau_plus=0.1), r"alpha must .* got 1.1"),
        (lambda u: F.proposal_cdf(u, alpha=0.9, tau_plus=1.0), r"tau_plus must lie in \[0, 1\)"),
        (lambda u: F.proposal_cdf(u, alpha=0.9, tau_plus=-0.1), r"tau_plus must .* got -0.1"),
        (lambda u: F.unlabeled_cdf(u, alpha=float("nan"), tau_plus=0.1), "alpha must be finite"),
        (lambda u: F.true_negative_density(u, u, alpha=0.2), "alpha must lie"),
        (lambda u: F.hard_negative_density(u, u, alpha=0.9, beta=0.3), "beta must lie"),
        (lambda u: F.hard_negative_density(u, u, alpha=1.0, beta=1.0), "must not both be 1"),
        (lambda u: F.posterior(u, alpha="high", tau_plus=0.1), "alpha must be a number"),
    ],
)
def test_a_parameter_outside_its_interval_is_named(
    call: Callable[[torch.Tensor], torch.Tensor], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        call(torch.tensor([0.5]))
