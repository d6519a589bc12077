"""The experiments by name: their computation and their figure.

Needs Matplotlib, and SciPy for one of them; ``pip install 'bayescl[cli]'`` brings both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.paper.simulation import figures
from bayescl_lab.paper.simulation.acceptance import acceptance
from bayescl_lab.paper.simulation.convergence import CANDIDATES, convergence
from bayescl_lab.paper.simulation.curves import (
    cdf_transform,
    densities,
    empirical_densities,
    weight_curves,
)
from bayescl_lab.paper.simulation.error_bound import ALPHAS, PRIORS, error_bound
from bayescl_lab.paper.simulation.latent import latent, latent_calibration
from bayescl_lab.paper.simulation.latent import steps as latent_steps
from bayescl_lab.paper.simulation.pair_order import pair_order
from bayescl_lab.paper.simulation.reliability import reliability
from bayescl_lab.paper.simulation.sampling_bias import sampling_bias
from bayescl_lab.paper.simulation.settings import Proposal, Settings
from bayescl_lab.paper.simulation.summaries import (
    Summarise,
    Summary,
    of_columns,
    of_error_bound,
    of_latent,
    of_reliability,
    of_sweeps,
    of_verdicts,
)
from bayescl_lab.paper.simulation.sweeps import SWEEPS, Tick, sweep
from bayescl_lab.paper.simulation.tables import Table
from bayescl_lab.paper.simulation.verdicts import SWEPT_PROPOSALS, verdicts

Run = Callable[[Settings, int, Tick], Table]

PANELS = ("alpha", "candidates", "tau_plus", "gamma", "temperature", "anchors")
"""The swept parameters of the paper's figure, panel by panel."""


def _nothing(_table: Table) -> list[Summary]:
    """No table to print."""
    return []


@dataclass(frozen=True)
class Experiment:
    """One numerical experiment.

    Args:
        name: name on the command line and of the files.
        summary: a short description.
        run: computes the table from settings and a seed, and calls back after each step.
        draw: draws the figure from the table.
        steps: number of times that ``run`` calls back.
        summarise: the tables to print; none for curves.
    """

    name: str
    summary: str
    run: Run
    draw: Callable[[Table], Figure]
    steps: int = 0
    summarise: Summarise = _nothing


def _swept(*parameters: str) -> tuple[Run, int]:
    """A sweep over parameters, and its number of steps."""
    steps = sum(len(SWEEPS[parameter]) for parameter in parameters)
    return lambda settings, seed, tick: sweep(parameters, settings, seed, tick), steps


def _sweep_experiment(
    name: str,
    summary: str,
    draw: Callable[[Table], Figure],
    summarise: Summarise,
    *parameters: str,
    proposal: Proposal | None = None,
) -> Experiment:
    """An experiment that is a sweep, with the settings' proposal or another."""
    run, steps = _swept(*parameters)

    def run_with_proposal(settings: Settings, seed: int, tick: Tick) -> Table:
        here = settings if proposal is None else replace(settings, proposal=proposal)
        return run(here, seed, tick)

    return Experiment(name, summary, run_with_proposal, draw, steps, summarise)


_ERRORS = of_sweeps("mse", ("biased", "debiased", "bayesian_upper", "bayesian_mid"))
_VARIANTS = (
    "bayesian_upper",
    "bayesian_upper_normalized",
    "bayesian_mid",
    "bayesian_mid_normalized",
)

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "densities",
        "densities of true and false negatives",
        lambda _settings, _seed, _tick: densities(),
        figures.draw_densities,
    ),
    Experiment(
        "empirical",
        "histograms of 20,000 observations beside these densities",
        lambda settings, seed, _tick: empirical_densities(settings, seed),
        figures.draw_empirical,
    ),
    Experiment(
        "acceptance",
        "acceptance rates and Kolmogorov-Smirnov tests of the samplers",
        lambda settings, seed, _tick: acceptance(settings, seed),
        figures.draw_acceptance,
        0,
        of_columns(
            "Accept-reject: rate, and p-values of Kolmogorov-Smirnov tests",
            "alpha",
            "class",
            "expected",
            "rate",
            "rejection_p",
            "inversion_p",
            "both_p",
        ),
    ),
    Experiment(
        "cdf-transform",
        "proposal CDF against the CDF of unlabeled candidates",
        lambda settings, _seed, _tick: cdf_transform(settings.tau_plus),
        figures.draw_cdf_transform,
    ),
    Experiment(
        "weights",
        "importance weights at a fixed alpha and at a fixed beta",
        lambda settings, _seed, _tick: weight_curves(settings.tau_plus),
        figures.draw_weights,
    ),
    Experiment(
        "sampling-bias",
        "what the biased loss's score says of the density ratio",
        lambda settings, _seed, _tick: sampling_bias(settings.tau_plus),
        figures.draw_sampling_bias,
    ),
    _sweep_experiment(
        "mse", "error of the estimators over six parameters", figures.draw_mse, _ERRORS, *PANELS
    ),
    _sweep_experiment(
        "mse-script",
        "the same with the proposals of the authors' script",
        figures.draw_mse,
        _ERRORS,
        *PANELS,
        proposal="script",
    ),
    Experiment(
        "verdicts",
        "where the Bayesian estimator's error is below its rivals', point by point",
        lambda settings, seed, tick: verdicts(PANELS, settings, seed, tick),
        figures.draw_verdicts,
        len(SWEPT_PROPOSALS) * _swept(*PANELS)[1],
        of_verdicts,
    ),
    _sweep_experiment(
        "means",
        "mean values of the estimators",
        figures.draw_means,
        of_sweeps("mean", ("supervised", "biased", "debiased", "bayesian_upper", "bayesian_mid")),
        "gamma",
        "alpha",
    ),
    _sweep_experiment(
        "ranks",
        "variants of the Bayesian estimator",
        figures.draw_ranks,
        of_sweeps("mse", _VARIANTS),
        "candidates",
        "alpha",
    ),
    _sweep_experiment(
        "hard",
        "how the hard estimator's error explodes",
        figures.draw_hard,
        of_sweeps("mse", ("hard", "biased", "debiased", "bayesian_upper", "bayesian_mid")),
        "concentration",
        "temperature",
    ),
    Experiment(
        "pair-order",
        "alpha against the AUC of independent pairs",
        pair_order,
        figures.draw_pair_order,
        len(SWEEPS["alpha"]),
        of_columns(
            "AUC of independent pairs, and the Bayesian estimator's MSE given alpha or the AUC",
            "alpha",
            "closed_form",
            "measured",
            "mse_alpha",
            "mse_auc",
        ),
    ),
    Experiment(
        "lemma-1",
        "posterior against the frequency of true negatives",
        reliability,
        figures.draw_reliability,
        6,
        of_reliability,
    ),
    Experiment(
        "lemma-2",
        "Bayesian loss against the supervised loss as N grows",
        convergence,
        figures.draw_convergence,
        len(CANDIDATES),
        of_columns("Lemma 2: loss less supervised loss", "candidates", "anchors", "loss", "gap"),
    ),
    Experiment(
        "lemma-3",
        "error of the Bayesian loss under its bound",
        error_bound,
        figures.draw_error_bound,
        len(ALPHAS) * (len(CANDIDATES) + len(PRIORS)),
        of_error_bound,
    ),
    Experiment(
        "latent",
        "what latent classes find, over components, sizes of classes and noise of views",
        latent,
        figures.draw_latent,
        latent_steps()[0],
        of_latent,
    ),
    Experiment(
        "latent-calibration",
        "posterior of latent classes against the frequency of pairs of one class",
        latent_calibration,
        figures.draw_latent_calibration,
        latent_steps()[1],
    ),
)
"""Every experiment, in the order of the page that describes them."""


def chosen(names: list[str]) -> tuple[Experiment, ...]:
    """The experiments with these names, in this order.

    Raises:
        ValueError: if a name is unknown.

    Example:
        >>> [experiment.name for experiment in chosen(["weights", "densities"])]
        ['weights', 'densities']
    """
    known = {experiment.name: experiment for experiment in EXPERIMENTS}
    for name in names:
        if name not in known:
            raise ValueError(f"unknown experiment {name!r}; known are {', '.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def write(experiment: Experiment, table: Table, folder: Path) -> tuple[Path, Path]:
    """Write an experiment's table, and the figure drawn from what was written.

    Args:
        experiment: the experiment.
        table: its result.
        folder: an existing folder for the files.

    Returns:
        The CSV file and the PNG file.

    Raises:
        OSError: if the folder cannot be written to.
    """
    data, picture = (folder / f"{experiment.name}.{kind}" for kind in ("csv", "png"))
    write_atomically(data, table.as_csv())
    save_figure(experiment.draw(Table.read(data)), picture)
    return data, picture
