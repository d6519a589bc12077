"""Densities, CDFs and the root, by integration and closed form."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from bayescl import functional as F
from bayescl.functional import PairMixture

ALPHAS = [0.5, 0.7, 0.9, 1.0]
alphas = st.floats(0.5, 1.0)
tau_pluses = st.floats(0.0, 0.99)


def mixtures(alpha: float) -> list[PairMixture]:
    return [
        PairMixture(1, 0),
        PairMixture(0, 1),
        PairMixture.true_negatives(alpha),
        PairMixture.false_negatives(alpha),
        PairMixture.unlabeled(alpha, 0.1),
        PairMixture.hard_negatives(alpha, 0.8 if alpha == 1 else 1.0),
    ]


@pytest.mark.parametrize("upper", [-1.3, 0.4, 12.0])
def test_every_cdf_is_the_integral_of_its_density_and_ends_at_one(upper):
    for mixture in (mixture for alpha in ALPHAS for mixture in mixtures(alpha)):

        def density(x: float, mixture: PairMixture = mixture) -> float:  # on a standard normal
            proposal = torch.tensor([stats.norm.pdf(x), stats.norm.cdf(x)], dtype=torch.float64)
            return mixture.density(*proposal).item()

        area = integrate.quad(density, -12.0, upper, epsabs=1e-11)[0]
        cdf = mixture.cdf(torch.tensor(stats.norm.cdf(upper), dtype=torch.float64))
        assert cdf.item() == pytest.approx(area, abs=1e-9)
        assert upper < 12 or area == pytest.approx(1, abs=1e-9)


@settings(deadline=None)
@given(alpha=alphas, tau_plus=tau_pluses, level=st.floats(0, 1))
def test_quantiles_invert_the_cdfs(alpha, tau_plus, level):
    value = torch.tensor([level], dtype=torch.float64)
    for mixture in [*mixtures(alpha), PairMixture.unlabeled(alpha, tau_plus)]:
        point = mixture.quantile(value)
        assert 0 <= point.item() <= 1
        torch.testing.assert_close(mixture.cdf(point), value, rtol=0, atol=1e-14)
    recovered = F.proposal_cdf(value, alpha=alpha, tau_plus=tau_plus)
    assert torch.equal(recovered, point)


def test_proposal_cdf_equals_the_textbook_root_and_is_exact_where_that_divides_by_zero():
    u = torch.linspace(0, 1, 101, dtype=torch.float64)
    for alpha, tau_plus in ((0.9, 0.1), (0.7, 0.01), (1.0, 0.3), (0.6, 0.8)):
        a = (1 - 2 * alpha) * (1 - 2 * tau_plus)
        b = 2 * (alpha * (1 - tau_plus) + (1 - alpha) * tau_plus)
        textbook = (-b + (b * b + 4 * a * u).sqrt()) / (2 * a)
        ours = F.proposal_cdf(u, alpha=alpha, tau_plus=tau_plus)
        torch.testing.assert_close(ours, textbook, rtol=1e-12, atol=1e-14)
    u = torch.linspace(0, 1, 11)
    for alpha, tau_plus in ((0.5, 0.1), (0.9, 0.5), (0.5, 0.5)):
        exact = F.proposal_cdf(u, alpha=alpha, tau_plus=tau_plus)
        torch.testing.assert_close(exact, u, rtol=1e-6, atol=0)
    for nudge in (1e-3, 1e-6, 1e-9, 1e-12):
        near = F.proposal_cdf(u, alpha=0.5 + nudge, tau_plus=0.1)
        torch.testing.assert_close(near, u, rtol=0, atol=2 * nudge + 2e-7)


def test_a_parameter_outside_its_interval_is_named():
    for call, message in (
        (lambda u: F.proposal_cdf(u, alpha=0.4, tau_plus=0.1), r"alpha must lie in \[0.5, 1\]"),
        (lambda u: F.proposal_cdf(u, alpha=0.9, tau_plus=1.0), r"tau_plus must lie in \[0, 1\)"),
        (lambda _: PairMixture.true_negatives(0.2), "alpha must lie"),
        (lambda _: PairMixture.hard_negatives(0.9, 0.3), "beta must lie"),
        (lambda _: PairMixture.hard_negatives(1.0, 1.0), "must not both be 1"),
        (lambda u: F.posterior(u, alpha="high", tau_plus=0.1), "alpha must be a number"),
    ):
        with pytest.raises(ValueError, match=message):
            call(torch.tensor([0.5]))
