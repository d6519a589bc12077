"""Latent classes on data from the model: the sampler, and what fitted components find."""

from __future__ import annotations

import polars as pl
import pytest
import torch
from scipy.special import ive

from bayescl_lab.paper.simulation.experiments import chosen
from bayescl_lab.paper.simulation.latent import class_sizes, sample_component
from bayescl_lab.paper.simulation.process import Settings


@pytest.fixture(scope="module")
def found() -> pl.DataFrame:
    return chosen(["latent"])[0].run(Settings(draws=2), 1)


@pytest.fixture(scope="module")
def calibrated() -> pl.DataFrame:
    return chosen(["latent-calibration"])[0].run(Settings(draws=2), 1)


def test_the_mean_of_a_component_has_the_length_that_bessel_functions_give() -> None:
    dim, rows = 8, 20_000
    direction = torch.eye(dim, dtype=torch.float64)[3]
    source = torch.Generator().manual_seed(0)
    for kappa in (0.0, 5.0, 60.0):
        drawn = sample_component(direction.expand(rows, dim), kappa, source)
        torch.testing.assert_close(drawn.norm(dim=1), torch.ones(rows, dtype=torch.float64))
        expected = ive(dim / 2, kappa) / ive(dim / 2 - 1, kappa) if kappa else 0.0
        assert float((drawn.mean(dim=0) - expected * direction).norm()) < 0.02


def test_unequal_classes_fall_evenly_to_a_fifth() -> None:
    sizes = class_sizes(5, "5:1")
    assert float(sizes.sum()) == pytest.approx(1)
    assert float(sizes[0] / sizes[-1]) == pytest.approx(5)
    ratios = sizes[:-1] / sizes[1:]
    torch.testing.assert_close(ratios, ratios[:1].expand(4))
    torch.testing.assert_close(class_sizes(5, "equal"), torch.full_like(sizes, 0.2))


@pytest.mark.parametrize("classes", ["equal", "5:1"])
def test_too_few_components_cost_precision_and_too_many_little(
    found: pl.DataFrame, classes: str
) -> None:
    def figure(column: str, components: str) -> float:
        here = found.filter(swept="components", classes=classes, components=components)
        return here[column].item()

    assert figure("precision", "0.5") < 0.6 < figure("precision", "1") < figure("precision", "2")
    assert min(figure("precision", name) for name in ("4", "together")) > 0.85
    assert figure("recall", "4") > 0.8
    assert figure("recall", "together") > 0.9
    assert figure("posterior_other", "together") < 0.1
    assert figure("agreement", "0.5") > 0.8  # which does not show that classes are merged


def test_agreement_and_precision_fall_with_noise(found: pl.DataFrame) -> None:
    for components in ("0.5", "1", "together"):
        over_noise = found.filter(swept="noise", components=components)
        agreement = over_noise["agreement"].to_list()
        assert agreement == sorted(agreement, reverse=True)
        assert over_noise["trust"][0] > 0.95
        assert over_noise["trust"][-1] == 0
    precision = found.filter(swept="noise", components="together")["precision"].to_list()
    assert precision[0] > 0.9
    assert precision[-1] < 0.2


def test_the_classes_own_components_are_calibrated_and_too_few_too_bold(
    calibrated: pl.DataFrame,
) -> None:
    excess = calibrated.with_columns(excess=pl.col("share") - pl.col("posterior"))
    own = excess.filter(classes="equal", components="known")
    assert (own["excess"].abs() * own["pairs"]).sum() < 0.02 * own["pairs"].sum()
    merged = excess.filter(pl.col("posterior") > 0.6, classes="equal", components="0.5")
    assert len(merged) > 0
    assert merged["excess"].max() < -0.2


def test_hardly_a_pair_is_in_a_bin_that_one_draw_alone_has_any_in(calibrated: pl.DataFrame) -> None:
    for components in calibrated["components"].unique():
        here = calibrated.filter(classes="equal", components=components)
        pairs = 2 * 512 * 511 // 2
        assert 0.95 * pairs < sum(here["pairs"]) <= pairs
