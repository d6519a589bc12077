"""Posterior and weights: Lemma 1, the paper's formula, limits."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import objectives as reference

from bayescl import functional as F
from bayescl._ops.weights import weights_of_cdf

SETTINGS = [(0.9, 0.5, 0.1), (0.7, 1.0, 0.01), (1.0, 0.9, 0.3), (0.5, 0.5, 0.1), (0.6, 0.8, 0.7)]
alphas = st.floats(0.5, 1.0)
tau_pluses = st.floats(0.0, 0.99)


@settings(deadline=None)
@given(alpha=alphas, tau_plus=tau_pluses)
def test_at_beta_one_half_the_weight_is_posterior_over_prior(alpha, tau_plus):
    cdf = torch.linspace(0, 1, 51, dtype=torch.float64)
    weights = F.importance_weights(cdf, alpha=alpha, beta=0.5, tau_plus=tau_plus)
    posterior = F.posterior(cdf, alpha=alpha, tau_plus=tau_plus)
    torch.testing.assert_close(weights, posterior / (1 - tau_plus), rtol=1e-11, atol=1e-13)


def test_weights_are_one_without_knowledge_fall_when_debiasing_and_rise_when_mining():
    cdf = torch.linspace(0, 1, 101, dtype=torch.float64)
    for tau_plus in (0.0, 0.1, 0.5, 0.99):
        guessing = F.importance_weights(cdf, alpha=0.5, beta=0.5, tau_plus=tau_plus)
        torch.testing.assert_close(guessing, torch.ones_like(cdf), rtol=1e-14, atol=0)
    assert (F.importance_weights(cdf, alpha=0.9, beta=0.5, tau_plus=0.1).diff() < 0).all()
    assert (F.importance_weights(cdf, alpha=0.6, beta=0.95, tau_plus=0.01).diff() > 0).all()
    # A perfect encoder without false negatives is the limit of a tiny prior.
    corner = F.importance_weights(cdf, alpha=1.0, beta=0.8, tau_plus=0.0)
    near = F.importance_weights(cdf[:-1], alpha=1.0, beta=0.8, tau_plus=1e-12)
    assert torch.equal(corner, torch.ones_like(cdf))
    torch.testing.assert_close(near, corner[:-1], rtol=1e-9, atol=0)
    assert torch.equal(F.posterior(cdf, alpha=1.0, tau_plus=0.0), torch.ones_like(cdf))


@pytest.mark.parametrize(("alpha", "beta", "tau_plus"), SETTINGS)
def test_weights_equal_the_papers_formula(alpha, beta, tau_plus):
    logits = torch.randn(1, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    given_ = {"alpha": alpha, "beta": beta, "tau_plus": tau_plus}
    for ranks in ("mid", "upper"):
        ours = F.logit_weights(logits.requires_grad_(), **given_, ranks=ranks)
        assert not ours.requires_grad
        torch.testing.assert_close(ours[0], reference.rank_weights(logits[0], ranks, **given_))


def test_weights_at_the_edge_of_float32_are_those_of_float64():
    cdf = torch.linspace(0, 1, 9, dtype=torch.float64)
    near = 1 - 1e-12
    ends = (near, near), (1.0, 0.5), (near, 0.5), (0.5, 1.0), (0.5, 0.5), (0.5 + 1e-7, 1 - 1e-7)
    priors, functions = (
        (0.0, 1e-300, 1e-40, 1e-12, 0.1, near),
        (weights_of_cdf, F.importance_weights),
    )
    for (alpha, beta), tau_plus, function in product(ends, priors, functions):
        exact, rough = (
            function(values, alpha=alpha, beta=beta, tau_plus=tau_plus)
            for values in (cdf, cdf.float())
        )
        assert (exact >= 0).all()
        torch.testing.assert_close(rough.double(), exact, rtol=1e-4, atol=1e-5)
