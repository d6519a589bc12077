"""Both samplers draw from the closed-form densities, and rejection takes as long as it should."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from bayescl import functional as F
from bayescl_lab.paper.simulation import (
    NormalProposals,
    Proposals,
    UniformProposals,
    generator,
    sample_by_inversion,
    sample_by_rejection,
)

COUNT = 20_000
UNIFORM = UniformProposals(
    torch.tensor([-1.0], dtype=torch.float64), torch.tensor([0.25], dtype=torch.float64)
)
ALPHAS = pytest.mark.parametrize("alpha", [0.5, 0.7, 0.9, 1.0])
FAMILIES = pytest.mark.parametrize("proposals", [NormalProposals(), UNIFORM], ids=["normal", "uni"])
CLASSES = pytest.mark.parametrize("true_negative", [True, False], ids=["tn", "fn"])


def draw(sampler: str, proposals: Proposals, alpha: float, true_negative: bool) -> torch.Tensor:
    labels = torch.full((1, COUNT), true_negative)
    source = generator(7, sampler, alpha, true_negative)
    if sampler == "inversion":
        return sample_by_inversion(labels, proposals, alpha=alpha, generator=source)[0]
    return sample_by_rejection(labels, proposals, alpha=alpha, generator=source).scores[0]


@ALPHAS
@FAMILIES
@CLASSES
@pytest.mark.parametrize("sampler", ["inversion", "accept-reject"])
def test_samples_follow_the_closed_form_cdf(
    sampler: str, proposals: Proposals, alpha: float, true_negative: bool
) -> None:
    scores = draw(sampler, proposals, alpha, true_negative)
    class_cdf = F.true_negative_cdf if true_negative else F.false_negative_cdf
    level = class_cdf(proposals.cdf(scores, torch.tensor(0)), alpha=alpha)
    assert stats.kstest(level.numpy(), "uniform").pvalue > 0.001


@ALPHAS
@FAMILIES
@CLASSES
def test_the_two_samplers_agree(proposals: Proposals, alpha: float, true_negative: bool) -> None:
    exact = draw("inversion", proposals, alpha, true_negative)
    rejected = draw("accept-reject", proposals, alpha, true_negative)
    assert stats.ks_2samp(exact.numpy(), rejected.numpy()).pvalue > 0.001


def test_the_test_of_samples_tells_alphas_apart() -> None:
    scores = draw("inversion", NormalProposals(), 0.9, True)
    wrong = F.true_negative_cdf(NormalProposals().cdf(scores, torch.tensor(0)), alpha=0.85)
    assert stats.kstest(wrong.numpy(), "uniform").pvalue < 1e-6


@ALPHAS
@CLASSES
def test_rejection_accepts_one_proposal_in_two_alpha(alpha: float, true_negative: bool) -> None:
    labels = torch.full((1, COUNT), true_negative)
    drawn = sample_by_rejection(labels, NormalProposals(), alpha=alpha, generator=generator(3))
    proposals = int(drawn.proposed.sum())
    # Given the proposals made, the number accepted is binomial but for how the run stops.
    assert stats.binomtest(COUNT, proposals, 1 / (2 * alpha)).pvalue > 0.001


def test_the_number_of_proposals_is_geometric() -> None:
    labels = torch.ones(1, COUNT, dtype=torch.bool)
    drawn = sample_by_rejection(labels, NormalProposals(), alpha=0.9, generator=generator(4))
    tries, chance = drawn.proposed[0].numpy(), 1 / 1.8
    observed = [int((tries == k).sum()) for k in range(1, 6)] + [int((tries > 5).sum())]
    law = stats.geom(chance)
    expected = [COUNT * law.pmf(k) for k in range(1, 6)] + [COUNT * law.sf(5)]
    assert stats.chisquare(observed, expected).pvalue > 0.001


@pytest.mark.parametrize("sampler", ["inversion", "accept-reject"])
def test_positives_outscore_negatives_by_the_share_the_densities_imply(sampler: str) -> None:
    # Integrating the densities, P(FN > TN) is 1/2 + (2 alpha - 1) / 3, not alpha itself.
    alpha = 0.9
    positive = draw(sampler, NormalProposals(), alpha, False)
    negative = draw(sampler, NormalProposals(), alpha, True)
    share = float((positive > negative).double().mean())
    assert abs(share - (0.5 + (2 * alpha - 1) / 3)) < 4 * (0.25 / COUNT) ** 0.5


def test_rows_are_drawn_from_their_own_distribution() -> None:
    apart = UniformProposals(
        torch.tensor([0.0, 10.0], dtype=torch.float64),
        torch.tensor([1.0, 11.0], dtype=torch.float64),
    )
    labels = torch.tensor([[True, False, True]] * 2)
    drawn = sample_by_rejection(labels, apart, alpha=0.8, generator=generator(0)).scores
    assert ((drawn[0] >= 0) & (drawn[0] <= 1)).all()
    assert ((drawn[1] >= 10) & (drawn[1] <= 11)).all()


def test_alpha_outside_its_interval_is_refused() -> None:
    labels = torch.ones(1, 2, dtype=torch.bool)
    for sampler in (sample_by_inversion, sample_by_rejection):
        with pytest.raises(ValueError, match=r"alpha must lie in \[0.5, 1\], got 0.4"):
            sampler(labels, NormalProposals(), alpha=0.4, generator=generator(0))
