"""The generative process: labels by prior, scores by class, chunks, seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy import stats

from bayescl import functional as F
from bayescl_lab.paper.simulation import Settings, generator, observe
from bayescl_lab.paper.simulation.process import CHUNK_ELEMENTS
from bayescl_lab.paper.simulation.settings import SAMPLERS


def everything(settings: Settings, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    chunks = list(observe(settings, generator(seed)))
    logits = torch.cat([chunk.unlabeled for chunk in chunks])
    return logits, torch.cat([chunk.true_negative for chunk in chunks])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_unlabeled_scores_follow_the_unlabeled_cdf(sampler: str) -> None:
    settings = Settings(
        anchors=200, proposal="normal", alpha=0.8, tau_plus=0.3, temperature=2.0, sampler=sampler
    )
    logits, _ = everything(settings)
    cdf = torch.special.ndtr(logits.flatten() * 2)
    level = F.unlabeled_cdf(cdf, alpha=0.8, tau_plus=0.3)
    assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001


def test_false_negatives_come_with_their_prior() -> None:
    _, true_negative = everything(Settings(anchors=500, tau_plus=0.3))
    false_negatives = int((~true_negative).sum())
    assert stats.binomtest(false_negatives, true_negative.numel(), 0.3).pvalue > 0.001


def test_positives_have_the_density_of_false_negatives() -> None:
    settings = Settings(anchors=500, proposal="normal", alpha=0.9, temperature=1.0)
    positives = torch.cat([chunk.positives for chunk in observe(settings, generator(0))])
    level = F.false_negative_cdf(torch.special.ndtr(positives.flatten()), alpha=0.9)
    assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001


def test_observations_are_double_precision_and_finite_at_extreme_temperature() -> None:
    logits, _ = everything(Settings(proposal="script", temperature=0.3, anchors=100))
    assert logits.dtype == torch.float64
    observation = logits.exp()
    assert observation.isfinite().all()
    assert observation.max() > 1e13


def test_a_temperature_at_which_squares_overflow_is_refused() -> None:
    settings = Settings(proposal="script", temperature=0.1, anchors=50)
    with pytest.raises(ValueError, match="temperature must be higher with script proposals"):
        next(observe(settings, generator(0)))


def test_chunks_stay_small_and_add_up() -> None:
    chunks = list(observe(Settings(anchors=7, candidates=CHUNK_ELEMENTS // 3), generator(0)))
    assert [len(chunk.unlabeled) for chunk in chunks] == [3, 3, 1]


def test_the_same_seed_gives_the_same_scores_and_another_seed_others() -> None:
    settings = Settings(anchors=20)
    assert everything(settings)[0].equal(everything(settings)[0])
    assert not everything(settings)[0].equal(everything(settings, seed=1)[0])


def test_paths_name_independent_streams() -> None:
    first, second = (torch.rand(1000, generator=generator(0, "mse", k)) for k in (0, 1))
    assert abs(float(torch.corrcoef(torch.stack([first, second]))[0, 1])) < 0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.4}, r"alpha must lie in \[0.5, 1\], got 0.4"),
        ({"tau_plus": 0.0}, r"tau_plus must lie in \(0, 1\), got 0.0"),
        ({"tau_plus": 1.0}, r"tau_plus must lie in \(0, 1\), got 1.0"),
        ({"candidates": 0}, "candidates must be a whole number of at least 1, got 0"),
        ({"anchors": 0}, "anchors must be a whole number of at least 1, got 0"),
        ({"beta": 1.0, "alpha": 1.0}, "alpha and beta must not both be 1"),
        ({"gamma": 1.5}, r"gamma must lie in \[0, 1\], got 1.5"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"proposal": "beta"}, "proposal must be one of slide, script, normal"),
        ({"sampler": "gibbs"}, "sampler must be one of"),
        ({"draws": 1}, "draws must be a whole number of at least 2"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(Settings(), **change)  # type: ignore[arg-type]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -1"):
        generator(-1)
