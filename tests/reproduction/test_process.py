"""The generative process, and every estimator against its formula and its limit."""

import math
from dataclasses import replace

import pytest
import torch
from scipy import stats

from bayescl import functional as F
from reproduction.process import (
    CHUNK_ELEMENTS,
    Observations,
    Settings,
    draw_proposals,
    estimates,
    generator,
    levels_of,
    observe,
)

COUNT = 20_000


def ends(settings: Settings, anchors: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The lowest and the highest score of each anchor's proposal distribution."""
    quantile = draw_proposals(settings, anchors, generator(0))
    level = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(anchors, 2)
    low, high = quantile(level).unbind(dim=1)
    return low, high


def test_sliding_intervals_have_length_one_and_slide_up_to_gamma():
    low, high = ends(Settings(gamma=0.3), 5000)
    torch.testing.assert_close(high - low, torch.ones(5000, dtype=torch.float64))
    slide = (high + low) / 2
    assert -0.3 <= slide.min() < -0.29
    assert 0.29 < slide.max() <= 0.3


def test_script_intervals_lie_in_the_range_of_the_authors_script():
    low, high = ends(Settings(proposal="script", gamma=0.25, temperature=0.5), 5000)
    assert low.min() >= -4
    assert -3.05 < low.max() <= -3
    assert 3 <= high.min() < 3.05
    assert high.max() <= 4
    # At gamma 0 they are the whole range.
    low, high = ends(Settings(proposal="script", gamma=0.0), 2)
    assert (low.tolist(), high.tolist()) == ([-4.0, -4.0], [4.0, 4.0])


@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9, 1.0])
def test_scores_follow_the_closed_form(alpha):
    kinds = {True: F.PairMixture.true_negatives, False: F.PairMixture.false_negatives}
    for true_negative, kind in kinds.items():
        labels = torch.full((1, COUNT), true_negative)
        level = levels_of(labels, alpha=alpha, generator=generator(7, alpha, true_negative))[0]
        assert stats.kstest(kind(alpha).cdf(level).numpy(), "uniform").pvalue > 0.001


def everything(settings: Settings, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    chunks = list(observe(settings, generator(seed)))
    logits = torch.cat([chunk.unlabeled for chunk in chunks])
    return logits, torch.cat([chunk.true_negative for chunk in chunks])


def test_scores_follow_the_mixtures_and_false_negatives_their_prior():
    settings = Settings(anchors=500, gamma=0.0, alpha=0.8, tau_plus=0.3, temperature=2.0)
    logits, true_negative = everything(settings)
    positives = torch.cat([chunk.positives for chunk in observe(settings, generator(0))])
    for values, mixture in (
        (logits, F.PairMixture.unlabeled(0.8, 0.3)),
        (positives, F.PairMixture.false_negatives(0.8)),
    ):
        level = mixture.cdf(2 * values.flatten() + 0.5)
        assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001
    false_negatives = int((~true_negative).sum())
    assert stats.binomtest(false_negatives, true_negative.numel(), 0.3).pvalue > 0.001


def test_observations_are_finite_at_extreme_temperature_and_refused_beyond():
    logits, _ = everything(Settings(proposal="script", temperature=0.3, anchors=100))
    assert logits.dtype == torch.float64
    assert logits.exp().isfinite().all()
    assert logits.exp().max() > 1e13
    with pytest.raises(ValueError, match=r"temperature .* is too low for script proposals"):
        everything(Settings(proposal="script", temperature=0.1, anchors=50))


def test_chunks_stay_small_and_add_up():
    chunks = list(observe(Settings(anchors=7, candidates=CHUNK_ELEMENTS // 3), generator(0)))
    assert [len(chunk.unlabeled) for chunk in chunks] == [3, 3, 1]


def test_paths_and_seeds_name_independent_streams():
    assert everything(Settings(anchors=20))[0].equal(everything(Settings(anchors=20))[0])
    first, *others = (
        torch.rand(1000, generator=generator(seed, "mse", value))
        for seed, value in ((0, 0), (0, 1), (1, 0))
    )
    for other in others:
        assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.1


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
