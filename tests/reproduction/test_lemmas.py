"""The paper's three lemmas, and where the third does not hold."""

import math

import pytest
import torch
from scipy import integrate

from bayescl import functional as F
from reproduction import lemmas
from reproduction.process import Settings, estimates, generator, observe


def test_lemma_1_the_posterior_is_the_frequency_of_true_negatives():
    # With the proposal CDF known, so that only the formula is tested.
    settings = Settings(anchors=2000, alpha=0.85, tau_plus=0.3, gamma=0.0, temperature=1.0)
    chunks = list(observe(settings, generator(0)))
    scores = torch.cat([chunk.unlabeled.flatten() for chunk in chunks])
    label = torch.cat([chunk.true_negative.flatten() for chunk in chunks]).double()
    posterior = F.posterior(scores + 0.5, alpha=0.85, tau_plus=0.3)
    for low in torch.arange(0.25, 0.95, 0.1).tolist():
        inside = (posterior >= low) & (posterior < low + 0.1)
        if inside.sum() < 100:
            continue
        expected = posterior[inside]
        error = (expected * (1 - expected)).sum().sqrt()
        assert abs(float((label[inside] - expected).sum() / error)) < 4


def test_with_ranks_lemma_1_needs_many_candidates():
    few, many = (lemmas.lemma_1(Settings(candidates=count, draws=4)) for count in (8, 64))
    largest = [
        max(abs(row["excess"]) for row in rows if row["ranks"] == "upper") for rows in (few, many)
    ]
    assert largest[0] > 0.15 > 0.05 > largest[1]


@pytest.mark.parametrize("candidates", [8, 1024])
def test_lemma_2_the_bayesian_gap_vanishes_and_the_biased_stays(candidates):
    upper, mid, biased = lemmas.lemma_2(Settings(candidates=candidates, draws=8))
    if candidates == 8:
        assert upper["gap"] < -0.03
    else:
        assert abs(upper["gap"]) < 4 * upper["gap_error"]
        assert abs(mid["gap"]) < 4 * mid["gap_error"]
        assert biased["gap"] > 10 * biased["gap_error"]


@pytest.mark.parametrize("alpha", lemmas.ALPHAS)
@pytest.mark.parametrize(("candidates", "tau_plus"), [(8, 0.1), (64, 0.1), (512, 0.1), (64, 0.9)])
def test_lemma_3_holds_at_the_papers_prior_and_breaks_where_most_are_false_negatives(
    candidates, tau_plus, alpha
):
    place = {"candidates": candidates, "tau_plus": tau_plus, "alpha": alpha}
    _, mid = lemmas.lemma_3(Settings(anchors=100, draws=8, **place))
    is_above = mid["error"] > mid["bound"] + 4 * mid["error_error"]
    assert is_above if tau_plus == 0.9 else mid["error"] < mid["bound"]
    assert mid["error"] < mid["corrected_bound"]


def test_bounds_are_the_integrals_of_their_tails():
    n, tau_plus = 50, 0.3
    tau_minus = 1 - tau_plus

    def area(exponent: float) -> float:
        return integrate.quad(lambda e: 2 * math.exp(-exponent * e * e), 0, math.inf)[0]

    assert lemmas.stated_bound(n, tau_plus) == pytest.approx(area(n / (2 * tau_minus**2)))
    # McDiarmid: 2 (eps / e)^2 over the sum of squares of (e - 1/e) / (N tau_minus).
    squares = n * ((math.e - 1 / math.e) / (n * tau_minus)) ** 2
    assert lemmas.corrected_bound(n, tau_plus) == pytest.approx(area(2 / math.e**2 / squares))


def test_the_bayesian_estimator_errs_less_at_the_papers_settings():
    verdicts = lemmas.comparisons(Settings(anchors=200, draws=6, alpha=0.9), "alpha")
    assert [record["verdict"] for record in verdicts] == ["below"] * 4


def test_true_negative_mean_has_its_closed_form_for_uniform_proposals():
    alpha, low, high, t = 0.8, -0.7, 1.1, 0.4
    # The integral of exp(p + c u) [2 alpha + (2 - 4 alpha) u] over the unit interval.
    p, c = low / t, (high - low) / t
    plain = (math.exp(c) - 1) / c
    linear = (math.exp(c) * (c - 1) + 1) / c**2
    expected = math.exp(p) * (2 * alpha * plain + (2 - 4 * alpha) * linear)
    found = lemmas.true_negative_mean(
        lambda level: low + (high - low) * level, 1, alpha=alpha, temperature=t
    )
    assert float(found) == pytest.approx(expected, rel=1e-12)


def test_supervised_and_bayesian_estimates_converge_to_the_expectation_and_others_do_not():
    settings = Settings(anchors=40, candidates=20_000, tau_plus=0.3)
    errors: dict[str, list[torch.Tensor]] = {}
    for chunk in observe(settings, generator(2)):
        size = len(chunk.unlabeled)
        truth = lemmas.true_negative_mean(chunk.quantile, size, alpha=0.9, temperature=0.5)
        for name, values in estimates(chunk, settings).items():
            errors.setdefault(name, []).append(values / truth - 1)
    relative = {name: torch.cat(parts) for name, parts in errors.items()}
    for name in ("supervised", "bayesian_upper", "bayesian_mid"):
        assert abs(float(relative[name].mean())) < 4 * float(relative[name].std()) / 40**0.5
        assert float(relative[name].abs().max()) < 0.03
    for name in ("biased", "hard"):
        assert float(relative[name].min()) > 0.1
