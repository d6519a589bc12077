"""The three lemmas, and what the simulation says against the paper."""

from __future__ import annotations

import math

import polars as pl
import pytest
import torch
from scipy import integrate

from bayescl import functional as F
from bayescl_lab.paper.simulation.experiments import chosen
from bayescl_lab.paper.simulation.frames import fitted_exponent
from bayescl_lab.paper.simulation.lemmas import mended_bound, stated_bound
from bayescl_lab.paper.simulation.model import independent_pair_auc
from bayescl_lab.paper.simulation.process import Settings, generator, observe


def table_of(name: str, **settings: float) -> pl.DataFrame:
    (experiment,) = chosen([name])
    return experiment.run(Settings(**settings), 0)


@pytest.fixture(scope="module", name="bounds")
def bounds_fixture() -> pl.DataFrame:
    return table_of("lemma-3", draws=4, anchors=300)


def test_lemma_1_the_posterior_is_the_frequency_of_true_negatives() -> None:
    # With the proposal CDF known, so that only the formula is tested.
    settings = Settings(anchors=2000, alpha=0.85, tau_plus=0.3, proposal="normal", temperature=1.0)
    scores, labels = [], []
    for chunk in observe(settings, generator(0)):
        scores.append(chunk.unlabeled.flatten())
        labels.append(chunk.true_negative.flatten())
    posterior = F.posterior(torch.special.ndtr(torch.cat(scores)), alpha=0.85, tau_plus=0.3)
    label = torch.cat(labels).double()
    for low in torch.arange(0.25, 0.95, 0.1).tolist():
        inside = (posterior >= low) & (posterior < low + 0.1)
        if inside.sum() < 100:
            continue
        expected = posterior[inside]
        error = (expected * (1 - expected)).sum().sqrt()
        assert abs(float((label[inside] - expected).sum() / error)) < 4


def test_lemma_1_holds_with_ranks_but_for_the_top_of_short_rows() -> None:
    table = table_of("lemma-1", draws=6).filter(alpha=0.9)
    many = table.filter(candidates=64, ranks="mid")
    assert many["excess"].abs().max() < 0.02
    top = table.filter(candidates=8, ranks="upper", bin=8)
    assert top["posterior"].to_list() == [0.5]
    assert top["excess"][0] > 0.15
    assert 0 < table.filter(candidates=8, ranks="mid", bin=8)["excess"].item() < 0.05


def test_lemma_2_the_bayesian_gap_vanishes_and_the_biased_stays() -> None:
    table = table_of("lemma-2", draws=8)
    for name in ("bayesian_upper", "bayesian_mid"):
        for count in (1024, 2048, 4096):
            record = table.filter(loss=name, candidates=count).row(0, named=True)
            assert abs(record["gap"]) < 4 * record["gap_error"] < 0.02
    few = table.filter(candidates=8)
    assert few.filter(loss="bayesian_upper")["gap"].item() < -0.03
    biased = table.filter(loss="biased", candidates=4096).row(0, named=True)
    assert biased["gap"] > 10 * biased["gap_error"]


def test_lemma_3_the_error_falls_as_the_root_of_candidates(bounds: pl.DataFrame) -> None:
    for alpha in bounds["alpha"].unique():
        here = bounds.filter(axis="candidates", alpha=alpha, estimator="bayesian_mid")
        assert -0.56 < fitted_exponent(here["candidates"], here["error"]) < -0.42


def test_lemma_3_holds_at_the_papers_prior(bounds: pl.DataFrame) -> None:
    for record in bounds.filter(axis="candidates").rows(named=True):
        assert record["error"] < record["bound"]


def test_lemma_3_is_broken_where_most_candidates_are_false_negatives(bounds: pl.DataFrame) -> None:
    for alpha in bounds["alpha"].unique():
        here = bounds.filter(axis="tau_plus", tau_plus=0.9, alpha=alpha)
        for record in here.rows(named=True):
            assert record["error"] > record["bound"] + 10 * record["error_error"]
    assert all(record["error"] < record["mended_bound"] for record in bounds.rows(named=True))


def test_bounds_are_the_integrals_of_their_tails() -> None:
    n, tau_plus = 50, 0.3
    tau_minus = 1 - tau_plus

    def area(exponent: float) -> float:
        return integrate.quad(lambda e: 2 * math.exp(-exponent * e * e), 0, math.inf)[0]

    assert stated_bound(n, tau_plus) == pytest.approx(area(n / (2 * tau_minus**2)))
    # McDiarmid: 2 (eps / e)^2 over the sum of squares of (e - 1/e) / (N tau_minus).
    squares = n * ((math.e - 1 / math.e) / (n * tau_minus)) ** 2
    assert mended_bound(n, tau_plus) == pytest.approx(area(2 / math.e**2 / squares))


def test_independent_pairs_have_the_closed_form_auc_not_alpha() -> None:
    table = table_of("pair-order", draws=4, anchors=100)
    for record in table.rows(named=True):
        assert abs(record["measured"] - record["closed_form"]) < 5 * (0.25 / 80_000) ** 0.5
    assert table.filter(alpha=0.9)["measured"].item() < 0.8
    assert independent_pair_auc(1.0) == pytest.approx(5 / 6)
