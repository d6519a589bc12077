"""Sweeps: what the paper claims of the estimators at its defaults, and how records are made."""

from __future__ import annotations

import math
from itertools import product

import polars as pl
import pytest

from bayescl_lab.paper.simulation.process import Settings, generator
from bayescl_lab.paper.simulation.sweeps import SWEEPS, one_draw, points_of, sweep

DEFAULTS = Settings(draws=6)


def swept(*parameters: str, settings: Settings, seed: int = 0) -> pl.DataFrame:
    return pl.concat(sweep(point, seed) for point in points_of(*parameters)(settings))


BAYESIAN = ("bayesian_upper", "bayesian_mid")


@pytest.fixture(scope="module", name="by_concentration")
def by_concentration_fixture() -> pl.DataFrame:
    return swept("concentration", settings=DEFAULTS)


def test_bayesian_error_is_below_its_rivals_at_the_papers_defaults(
    by_concentration: pl.DataFrame,
) -> None:
    # All values but the hard estimator's exponent are the defaults.
    rows = {row["estimator"]: row for row in by_concentration.rows(named=True)}
    for ours, rival in product(BAYESIAN, ("biased", "debiased")):
        margin = rows[rival]["mse"] - rows[ours]["mse"]
        assert margin > 5 * (rows[rival]["mse_error"] + rows[ours]["mse_error"]) > 0


def test_the_hard_estimators_error_explodes_with_its_concentration(
    by_concentration: pl.DataFrame,
) -> None:
    hard = by_concentration.filter(estimator="hard")["mse"].to_list()
    debiased = by_concentration.filter(estimator="debiased")["mse"].to_list()
    assert hard[0] == debiased[0]
    assert hard == sorted(hard)
    assert hard[-1] > 500 * hard[0]


def test_upper_ranks_lose_to_the_biased_mean_at_four_candidates() -> None:
    settings = Settings(candidates=4)
    draws = [one_draw(settings, generator(0, "few", index)) for index in range(3)]
    for drawn in draws:
        names = ("bayesian_mid", "biased", "bayesian_upper")
        mid, biased, upper = (drawn[name]["mse"] for name in names)
        assert mid < biased < upper


def test_anchors_without_true_negatives_are_left_out_and_counted() -> None:
    settings = Settings(candidates=2, tau_plus=0.5, anchors=4000)
    drawn = one_draw(settings, generator(0))
    left_out = drawn["biased"]["left_out"]
    assert abs(left_out - 1000) < 4 * (4000 * 0.25 * 0.75) ** 0.5
    assert not math.isnan(drawn["biased"]["mse"])


def test_a_draw_of_nothing_but_false_negatives_is_refused() -> None:
    settings = Settings(candidates=1, tau_plus=0.999, anchors=1, draws=2)
    with pytest.raises(ValueError, match="no anchor has a true negative at concentration = 0"):
        swept("concentration", settings=settings)


def test_bands_hold_the_mean_and_the_supervised_estimator_has_no_error() -> None:
    table = swept("gamma", settings=Settings(draws=5, anchors=100), seed=1)
    assert len(table) == len(SWEEPS["gamma"]) * 8
    for record in table.rows(named=True):
        assert record["mse_low"] <= record["mse"] <= record["mse_high"]
    assert set(table.filter(estimator="supervised")["mse"].to_list()) == {0.0}
    assert set(table.filter(estimator="supervised")["bias"].to_list()) == {0.0}


def test_a_sweeps_value_draws_the_same_alone_and_among_others() -> None:
    settings = Settings(draws=2, anchors=20)
    alone = swept("gamma", settings=settings, seed=5)
    among = swept("temperature", "gamma", settings=settings, seed=5).filter(parameter="gamma")
    assert alone.equals(among)
