"""The paper's three lemmas, and where the third does not hold.

The proof of lemma 3 takes the range of ``e^cos`` to be ``[-1/e, 1/e]``; it is ``[1/e, e]``. With
``c_i = 2 / (N e tau_minus)`` the exponent of McDiarmid's inequality has ``tau_minus ** 2`` as a
factor, not as a divisor. :func:`mended` has both steps corrected.
"""

from __future__ import annotations

import math

import pytest
import torch
from reference.process import true_negative_mean
from scipy import integrate

from bayescl import functional as F
from bayescl_lab.paper.simulation.process import Settings, generator, levels_of, observe


def stated(candidates: int, tau_plus: float) -> float:
    return (1 - tau_plus) * math.sqrt(2 * math.pi / candidates)


def mended(candidates: int, tau_plus: float) -> float:
    return (math.e**2 - 1) / (1 - tau_plus) * math.sqrt(math.pi / (2 * candidates))


def losses_of(chunk, settings: Settings, ranks: str) -> torch.Tensor:
    own = F.Bayesian(settings.alpha, settings.beta, settings.tau_plus, ranks)
    return own(chunk.positives[:, 0], chunk.unlabeled)


def over_draws(measure, settings: Settings, draws: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and standard errors of what is measured on each draw of the process."""
    rows = []
    for index in range(draws):
        source = generator(0, "lemmas", index)
        measured = [torch.stack(measure(chunk, source)) for chunk in observe(settings, source)]
        rows.append(torch.cat(measured, dim=1).mean(dim=1))
    values = torch.stack(rows)
    return values.mean(0), values.std(0) / draws**0.5


def test_lemma_1_the_posterior_is_the_frequency_of_true_negatives() -> None:
    # With the proposal CDF known, so that only the formula is tested.
    settings = Settings(anchors=2000, alpha=0.85, tau_plus=0.3, gamma=0.0, temperature=1.0)
    scores, labels = [], []
    for chunk in observe(settings, generator(0)):
        scores.append(chunk.unlabeled.flatten())
        labels.append(chunk.true_negative.flatten())
    posterior = F.posterior(torch.cat(scores) + 0.5, alpha=0.85, tau_plus=0.3)
    label = torch.cat(labels).double()
    for low in torch.arange(0.25, 0.95, 0.1).tolist():
        inside = (posterior >= low) & (posterior < low + 0.1)
        if inside.sum() < 100:
            continue
        expected = posterior[inside]
        error = (expected * (1 - expected)).sum().sqrt()
        assert abs(float((label[inside] - expected).sum() / error)) < 4


@pytest.mark.parametrize("candidates", [8, 1024])
def test_lemma_2_the_bayesian_gap_vanishes_and_the_biased_stays(candidates: int) -> None:
    settings = Settings(candidates=candidates, anchors=2**17 // 1024)

    def gaps(chunk, source: torch.Generator) -> list[torch.Tensor]:
        everyone = torch.ones_like(chunk.true_negative)
        level = levels_of(everyone, alpha=settings.alpha, generator=source)
        positive = chunk.positives[:, 0]
        supervised = F.info_nce_loss(positive, chunk.quantile(level) / settings.temperature)
        biased = F.info_nce_loss(positive, chunk.unlabeled)
        losses = (losses_of(chunk, settings, ranks) for ranks in ("upper", "mid"))
        return [loss - supervised for loss in (*losses, biased)]

    gap, error = over_draws(gaps, settings, 8)
    if candidates == 8:
        assert gap[0] < -0.03  # upper ranks
    else:
        assert (gap[:2].abs() < 4 * error[:2]).all()
        assert gap[2] > 10 * error[2]


@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
@pytest.mark.parametrize(("candidates", "tau_plus"), [(8, 0.1), (64, 0.1), (512, 0.1), (64, 0.9)])
def test_lemma_3_holds_at_the_papers_prior_and_breaks_where_most_are_false_negatives(
    candidates: int, tau_plus: float, alpha: float
) -> None:
    # Scores in [-1, 1] at temperature 1, as the lemma assumes.
    place = {"candidates": candidates, "tau_plus": tau_plus, "alpha": alpha}
    settings = Settings(anchors=100, proposal="script", gamma=0.0, temperature=1.0, **place)

    def errors(chunk, _: torch.Generator) -> list[torch.Tensor]:
        truth = true_negative_mean(
            chunk.quantile, len(chunk.unlabeled), alpha=alpha, temperature=1.0
        )
        limit = torch.log1p(candidates * truth / chunk.positives[:, 0].exp())
        return [(losses_of(chunk, settings, "mid") - limit).abs()]

    (found,), (error,) = over_draws(errors, settings, 4)
    bound = stated(candidates, tau_plus)
    assert found > bound + 10 * error if tau_plus == 0.9 else found < bound
    assert found < mended(candidates, tau_plus)


def test_bounds_are_the_integrals_of_their_tails() -> None:
    n, tau_plus = 50, 0.3
    tau_minus = 1 - tau_plus

    def area(exponent: float) -> float:
        return integrate.quad(lambda e: 2 * math.exp(-exponent * e * e), 0, math.inf)[0]

    assert stated(n, tau_plus) == pytest.approx(area(n / (2 * tau_minus**2)))
    # McDiarmid: 2 (eps / e)^2 over the sum of squares of (e - 1/e) / (N tau_minus).
    squares = n * ((math.e - 1 / math.e) / (n * tau_minus)) ** 2
    assert mended(n, tau_plus) == pytest.approx(area(2 / math.e**2 / squares))
