"""Every estimator against its formula, its loss, and its limit."""

import math
from dataclasses import replace

import pytest
import torch

from reproduction.process import Observations, Settings, estimates, generator, observe

SETTINGS = Settings(anchors=6, candidates=11, alpha=0.85, tau_plus=0.3, temperature=0.7)


@pytest.fixture(name="observed")
def observed_fixture() -> Observations:
    return next(observe(SETTINGS, generator(1)))


def test_estimators_equal_the_papers_formulas_in_loops(observed):
    found = estimates(observed, SETTINGS)
    alpha, tau_plus = SETTINGS.alpha, SETTINGS.tau_plus
    a = (1 - 2 * alpha) * (1 - 2 * tau_plus)
    b = 2 * (alpha * (1 - tau_plus) + (1 - alpha) * tau_plus)
    for row in range(SETTINGS.anchors):
        x = [math.exp(value) for value in observed.unlabeled[row].tolist()]
        positives = [math.exp(value) for value in observed.positives[row].tolist()]
        negatives = [v for v, is_tn in zip(x, observed.true_negative[row], strict=True) if is_tn]
        n = len(x)
        positive_mean = sum(positives) / len(positives)
        floor = math.exp(-1 / SETTINGS.temperature)
        ratio = [value / (sum(x) / n) for value in x]
        hard_sum = sum(r * value for r, value in zip(ratio, x, strict=True))
        expected = {
            "supervised": sum(negatives) / len(negatives),
            "biased": sum(x) / n,
            "debiased": max((sum(x) / n - tau_plus * positive_mean) / (1 - tau_plus), floor),
            "hard": max((hard_sum / n - tau_plus * positive_mean) / (1 - tau_plus), floor),
        }
        for ranks, shift in (("upper", 0.0), ("mid", 0.5)):
            weights = []
            for value in x:
                u = (sum(other <= value for other in x) - shift) / n
                cdf = (-b + math.sqrt(b * b + 4 * a * u)) / (2 * a)
                weights.append((alpha + (1 - 2 * alpha) * cdf) / (b / 2 + a * cdf))
            total = sum(w * value for w, value in zip(weights, x, strict=True))
            expected[f"bayesian_{ranks}"] = total / n
        assert {name: float(value[row]) for name, value in found.items()} == pytest.approx(expected)


def test_estimators_meet_at_their_limits(observed):
    plain = estimates(observed, replace(SETTINGS, concentration=0.0, alpha=0.5))
    torch.testing.assert_close(plain["hard"], plain["debiased"])
    for name in (name for name in plain if name.startswith("bayesian")):
        torch.testing.assert_close(plain[name], plain["biased"])
    # Without true negatives there is no supervised mean.
    hidden = observed._replace(true_negative=torch.zeros_like(observed.true_negative))
    assert estimates(hidden, SETTINGS)["supervised"].isnan().all()
