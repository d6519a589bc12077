"""The experiments by name: their computation, their figure, and what they say.

Each takes the settings of the process, a seed, and a callback for the share that is done. Needs
Matplotlib, Polars, and SciPy for one of them; ``pip install 'bayescl[cli]'`` brings all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.paper.simulation import curves, findings, latent, lemmas, model, sweeps
from bayescl_lab.paper.simulation.estimators import SUPERVISED, VARIANTS
from bayescl_lab.paper.simulation.frames import Tick
from bayescl_lab.paper.simulation.process import Proposal, Settings


@dataclass(frozen=True)
class Experiment:
    """One numerical experiment.

    Args:
        name: name on the command line and of the files.
        summary: a short description.
        run: computes the table from settings and a seed, and calls back with the share done.
        draw: draws the figure from the table.
        finding: what the table says in a sentence or two; nothing for curves.
    """

    name: str
    summary: str
    run: Callable[[Settings, int, Tick], pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]
    finding: Callable[[pl.DataFrame], str] = lambda _: ""


def _sweep(*parameters: str, proposals: tuple[Proposal, ...] = ()) -> Callable[..., pl.DataFrame]:
    """A sweep over parameters, with the settings' proposal or others."""
    return lambda settings, seed, tick: sweeps.sweep(
        parameters, settings, seed, tick, proposals=proposals
    )


_MSE = {"mse": "MSE to the supervised mean"}
_DRAW_MSE = sweeps.draw_panels(
    "Mean squared error, proposals: {proposal}",
    sweeps.SHOWN,
    _MSE,
    across=3,
    logarithmic=sweeps.PANELS,
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "densities",
        "densities of true and false negatives",
        lambda _settings, _seed, _tick: curves.densities(),
        curves.draw_densities,
    ),
    Experiment(
        "empirical",
        "histograms of 20,000 observations beside these densities",
        lambda settings, seed, _tick: model.empirical_densities(settings, seed),
        model.draw_empirical,
    ),
    Experiment(
        "acceptance",
        "acceptance rates and Kolmogorov-Smirnov tests of the samplers",
        model.acceptance,
        model.draw_acceptance,
        findings.of_acceptance,
    ),
    Experiment(
        "cdf-transform",
        "proposal CDF against the CDF of unlabeled candidates",
        lambda settings, _seed, _tick: curves.cdf_transform(settings.tau_plus),
        curves.draw_cdf_transform,
    ),
    Experiment(
        "weights",
        "importance weights at a fixed alpha and at a fixed beta",
        lambda settings, _seed, _tick: curves.weight_curves(settings.tau_plus),
        curves.draw_weights,
    ),
    Experiment(
        "sampling-bias",
        "what the biased loss's score says of the density ratio",
        lambda settings, _seed, _tick: curves.sampling_bias(settings.tau_plus),
        curves.draw_sampling_bias,
    ),
    Experiment(
        "mse",
        "error of the estimators over six parameters",
        _sweep(*sweeps.PANELS),
        _DRAW_MSE,
        findings.of_errors,
    ),
    Experiment(
        "mse-script",
        "the same with the proposals of the authors' script",
        _sweep(*sweeps.PANELS, proposals=("script",)),
        _DRAW_MSE,
        findings.of_errors,
    ),
    Experiment(
        "verdicts",
        "where the Bayesian estimator's error is below its rivals', point by point",
        sweeps.verdicts,
        sweeps.draw_verdicts,
        findings.of_verdicts,
    ),
    Experiment(
        "means",
        "mean values of the estimators",
        _sweep("gamma", "alpha"),
        sweeps.draw_panels(
            "Mean values of the estimators",
            (*sweeps.SHOWN, SUPERVISED),
            {"mean": "mean over anchors", "bias": "mean less supervised mean"},
        ),
        findings.of_means,
    ),
    Experiment(
        "ranks",
        "variants of the Bayesian estimator",
        _sweep("candidates", "alpha"),
        sweeps.draw_panels(
            "Variants of the Bayesian estimator", VARIANTS, _MSE, logarithmic=["candidates"]
        ),
        findings.of_errors,
    ),
    Experiment(
        "hard",
        "how the hard estimator's error explodes",
        _sweep("concentration", "temperature"),
        sweeps.draw_panels(
            "Error of the hard estimator",
            ("hard", *sweeps.SHOWN),
            _MSE,
            logarithmic=["concentration", "temperature"],
        ),
        findings.of_errors,
    ),
    Experiment(
        "pair-order",
        "alpha against the AUC of independent pairs",
        model.pair_order,
        model.draw_pair_order,
        findings.of_pair_order,
    ),
    Experiment(
        "lemma-1",
        "posterior against the frequency of true negatives",
        lemmas.reliability,
        lemmas.draw_reliability,
        findings.of_reliability,
    ),
    Experiment(
        "lemma-2",
        "Bayesian loss against the supervised loss as N grows",
        lemmas.convergence,
        lemmas.draw_convergence,
        findings.of_convergence,
    ),
    Experiment(
        "lemma-3",
        "error of the Bayesian loss under its bound",
        lemmas.error_bound,
        lemmas.draw_error_bound,
        findings.of_error_bound,
    ),
    Experiment(
        "latent",
        "what latent classes find, over components, sizes of classes and noise of views",
        latent.latent,
        latent.draw_latent,
        findings.of_latent,
    ),
    Experiment(
        "latent-calibration",
        "posterior of latent classes against the frequency of pairs of one class",
        latent.latent_calibration,
        latent.draw_latent_calibration,
        findings.of_latent_calibration,
    ),
)
"""Every experiment, in the order of the page that describes them."""


def chosen(names: list[str]) -> tuple[Experiment, ...]:
    """The experiments with these names, each once, in this order.

    Raises:
        ValueError: if a name is unknown.
    """
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown experiment {name!r}; known are {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def read_table(file: Path) -> pl.DataFrame:
    """An experiment's table from its CSV file."""
    return pl.read_csv(file, infer_schema_length=None)


def write(experiment: Experiment, table: pl.DataFrame, folder: Path) -> tuple[Path, Path]:
    """Write an experiment's table as CSV, and the PNG figure drawn from what was written."""
    data, picture = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "png"))
    write_atomically(data, table.write_csv())
    save_figure(experiment.draw(read_table(data)), picture)
    return data, picture
