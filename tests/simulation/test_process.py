"""The generative process: proposals, samplers, labels by prior, scores by class, chunks, seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from scipy import stats

from bayescl import functional as F
from bayescl_lab.paper.simulation.process import (
    CHUNK_ELEMENTS,
    SAMPLERS,
    NormalProposals,
    Proposals,
    Settings,
    UniformProposals,
    draw_proposals,
    generator,
    observe,
    sample_by_inversion,
    sample_by_rejection,
)

COUNT = 20_000
CLASSES = pytest.mark.parametrize("true_negative", [True, False], ids=["tn", "fn"])
UNIFORM = UniformProposals(
    torch.tensor([-0.5, -4.0], dtype=torch.float64), torch.tensor([0.5, 3.0], dtype=torch.float64)
)
FAMILIES = pytest.mark.parametrize("proposals", [UNIFORM, NormalProposals()], ids=["uni", "normal"])
ROWS = torch.tensor([[0], [1]])


@FAMILIES
def test_quantile_inverts_the_cdf_and_is_finite_at_zero(proposals: Proposals) -> None:
    level = torch.linspace(0.001, 0.999, 50, dtype=torch.float64).expand(2, 50)
    torch.testing.assert_close(proposals.cdf(proposals.quantile(level, ROWS), ROWS), level)
    assert proposals.quantile(torch.zeros(2, 1, dtype=torch.float64), ROWS).isfinite().all()


def test_sliding_intervals_have_length_one_and_slide_up_to_gamma() -> None:
    drawn = draw_proposals(Settings(gamma=0.3), 5000, generator(0))
    assert isinstance(drawn, UniformProposals)
    torch.testing.assert_close(drawn.high - drawn.low, torch.ones(5000, dtype=torch.float64))
    slide = (drawn.high + drawn.low) / 2
    assert slide.abs().max() <= 0.3
    assert slide.max() > 0.29
    assert slide.min() < -0.29


def test_script_intervals_lie_in_the_range_of_the_authors_script() -> None:
    settings = Settings(proposal="script", gamma=0.25, temperature=0.5)
    drawn = draw_proposals(settings, 5000, generator(0))
    assert isinstance(drawn, UniformProposals)
    assert drawn.low.min() >= -4
    assert -3.05 < drawn.low.max() <= -3
    assert 3 <= drawn.high.min() < 3.05
    assert drawn.high.max() <= 4
    # At gamma 0 they are the whole range.
    drawn = draw_proposals(Settings(proposal="script", gamma=0.0), 2, generator(0))
    assert isinstance(drawn, UniformProposals)
    assert drawn.low.tolist() == [-4.0, -4.0]
    assert drawn.high.tolist() == [4.0, 4.0]


def draw(sampler: str, proposals: Proposals, alpha: float, true_negative: bool) -> torch.Tensor:
    labels = torch.full((1, COUNT), true_negative)
    source = generator(7, sampler, alpha, true_negative)
    if sampler == "inversion":
        return sample_by_inversion(labels, proposals, alpha=alpha, generator=source)[0]
    return sample_by_rejection(labels, proposals, alpha=alpha, generator=source)[0][0]


@FAMILIES
@CLASSES
@pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9, 1.0])
def test_both_samplers_follow_the_closed_form_cdf(
    proposals: Proposals, alpha: float, true_negative: bool
) -> None:
    kind = F.PairMixture.true_negatives if true_negative else F.PairMixture.false_negatives
    drawn = [draw(sampler, proposals, alpha, true_negative) for sampler in SAMPLERS]
    for scores in drawn:
        level = kind(alpha).cdf(proposals.cdf(scores, torch.tensor(0)))
        assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001
    assert stats.ks_2samp(*(scores.numpy() for scores in drawn)).pvalue > 0.001


@CLASSES
def test_rejection_accepts_one_proposal_in_two_alpha(true_negative: bool) -> None:
    labels = torch.full((1, COUNT), true_negative)
    for alpha in (0.5, 0.7, 0.9, 1.0):
        _, made = sample_by_rejection(
            labels, NormalProposals(), alpha=alpha, generator=generator(3)
        )
        proposals = int(made.sum())
        # Given the proposals made, the number accepted is binomial but for how the run stops.
        assert stats.binomtest(COUNT, proposals, 1 / (2 * alpha)).pvalue > 0.001


def test_rows_are_drawn_from_their_own_distribution() -> None:
    apart = UniformProposals(
        torch.tensor([0.0, 10.0], dtype=torch.float64),
        torch.tensor([1.0, 11.0], dtype=torch.float64),
    )
    labels = torch.tensor([[True, False, True]] * 2)
    drawn = sample_by_rejection(labels, apart, alpha=0.8, generator=generator(0))[0]
    assert ((drawn[0] >= 0) & (drawn[0] <= 1)).all()
    assert ((drawn[1] >= 10) & (drawn[1] <= 11)).all()


def test_alpha_outside_its_interval_is_refused() -> None:
    labels = torch.ones(1, 2, dtype=torch.bool)
    for sampler in (sample_by_inversion, sample_by_rejection):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0.5, 1\], got 0.4"):
            sampler(labels, NormalProposals(), alpha=0.4, generator=generator(0))


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
    level = F.PairMixture.unlabeled(0.8, 0.3).cdf(cdf)
    assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001


def test_false_negatives_come_with_their_prior() -> None:
    _, true_negative = everything(Settings(anchors=500, tau_plus=0.3))
    false_negatives = int((~true_negative).sum())
    assert stats.binomtest(false_negatives, true_negative.numel(), 0.3).pvalue > 0.001


def test_positives_have_the_density_of_false_negatives() -> None:
    settings = Settings(anchors=500, proposal="normal", alpha=0.9, temperature=1.0)
    positives = torch.cat([chunk.positives for chunk in observe(settings, generator(0))])
    level = F.PairMixture.false_negatives(0.9).cdf(torch.special.ndtr(positives.flatten()))
    assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001


def test_observations_are_finite_at_extreme_temperature_and_refused_beyond() -> None:
    logits, _ = everything(Settings(proposal="script", temperature=0.3, anchors=100))
    assert logits.dtype == torch.float64
    assert logits.exp().isfinite().all()
    assert logits.exp().max() > 1e13
    with pytest.raises(ValueError, match="temperature must be higher with script proposals"):
        everything(Settings(proposal="script", temperature=0.1, anchors=50))


def test_chunks_stay_small_and_add_up() -> None:
    chunks = list(observe(Settings(anchors=7, candidates=CHUNK_ELEMENTS // 3), generator(0)))
    assert [len(chunk.unlabeled) for chunk in chunks] == [3, 3, 1]


def test_paths_and_seeds_name_independent_streams() -> None:
    assert everything(Settings(anchors=20))[0].equal(everything(Settings(anchors=20))[0])
    first, *others = (
        torch.rand(1000, generator=generator(seed, "mse", value))
        for seed, value in ((0, 0), (0, 1), (1, 0))
    )
    for other in others:
        assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.1
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -1"):
        generator(-1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": 0.4}, "alpha\n  Input should be greater than or equal to 0.5"),
        ({"tau_plus": 0.0}, "tau_plus\n  Input should be greater than 0"),
        ({"tau_plus": 1.0}, "tau_plus\n  Input should be less than 1"),
        ({"candidates": 0}, "candidates\n  Input should be greater than or equal to 1"),
        ({"beta": 1.0, "alpha": 1.0}, "alpha and beta must not both be 1"),
        ({"temperature": 0.0}, "temperature\n  Input should be greater than 0"),
        ({"proposal": "beta"}, "proposal\n  Input should be 'slide', 'script' or 'normal'"),
        ({"draws": 1}, "draws\n  Input should be greater than or equal to 2"),
    ],
)
def test_bad_settings_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(Settings(), **change)  # type: ignore[arg-type]
