"""The experiments by name: their computation, their figure, and what they say.

Needs Matplotlib, Polars, and SciPy for one of them; ``pip install 'bayescl[cli]'`` brings all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl_lab._cores import usable_cores
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.paper.simulation import model, sweeps
from bayescl_lab.paper.simulation.frames import rounded
from bayescl_lab.paper.simulation.process import Settings
from bayescl_lab.paper.simulation.sweeps import PANELS, errors_finding, points_of, sweep

Tick = Callable[[float], None]
"""Called with the share of an experiment that is done."""

SUMMARIES = {
    "densities": "densities of true and false negatives",
    "cdf-transform": "proposal CDF against the CDF of unlabeled candidates",
    "weights": "importance weights at a fixed alpha and at a fixed beta",
    "empirical": "histograms of 20,000 observations beside these densities",
    "pair-order": "alpha against the AUC of independent pairs",
    "mse": "error of the estimators over six parameters",
    "mse-script": "the same with the proposals of the authors' script",
    "means": "mean values of the estimators",
    "ranks": "variants of the Bayesian estimator",
    "hard": "how the hard estimator's error explodes",
}
"""Summary of each experiment, in the order of lists and pages."""


@dataclass(frozen=True)
class Experiment:
    """One numerical experiment.

    Args:
        name: name on the command line and of the files.
        measure: the table of one point, with the seed as its second argument.
        draw: draws the figure from the whole table.
        finding: what the table says in a sentence or two; nothing for curves.
        points: what is measured, one after the other; default: the settings themselves.
    """

    name: str
    measure: Callable[[Any, int], pl.DataFrame]
    draw: Callable[[pl.DataFrame], Figure]
    finding: Callable[[pl.DataFrame], str] = lambda _: ""
    points: Callable[[Settings], Sequence[Any]] = lambda settings: [settings]

    @property
    def summary(self) -> str:
        """Summary of the experiment."""
        return SUMMARIES[self.name]

    def run(self, settings: Settings, seed: int, tick: Tick = lambda _: None) -> pl.DataFrame:
        """Measure every point, on one thread per core, and join the tables in order.

        Tensor operations on tens of thousands of numbers gain nothing from several threads and lose
        much on busy cores. So each operation runs on one thread, and points run in parallel;
        ``tick`` is called after each point.
        """
        points, tables = self.points(settings), list[pl.DataFrame]()
        # The initializer's setting is that of the worker's own thread.
        pool = ThreadPoolExecutor(usable_cores(), initializer=torch.set_num_threads, initargs=(1,))
        with pool:
            for table in pool.map(lambda point: self.measure(point, seed), points):
                tables.append(table)
                tick(len(tables) / len(points))
        return rounded(pl.concat(tables, how="vertical_relaxed"))


EXPERIMENTS = (
    Experiment("densities", model.densities, model.draw_densities),
    Experiment("cdf-transform", model.cdf_transform, model.draw_cdf_transform),
    Experiment("weights", model.weight_curves, model.draw_weights),
    Experiment("empirical", model.empirical_densities, model.draw_empirical),
    Experiment(
        "pair-order",
        model.pair_order,
        model.draw_pair_order,
        model.pair_order_finding,
        model.alphas,
    ),
    Experiment("mse", sweep, sweeps.draw_errors, errors_finding, points_of(*PANELS)),
    Experiment("mse-script", sweep, sweeps.draw_errors, errors_finding, sweeps.script_points),
    Experiment(
        "means", sweep, sweeps.draw_means, sweeps.means_finding, points_of("gamma", "alpha")
    ),
    Experiment(
        "ranks", sweep, sweeps.draw_variants, errors_finding, points_of("candidates", "alpha")
    ),
    Experiment(
        "hard", sweep, sweeps.draw_hard, errors_finding, points_of("concentration", "temperature")
    ),
)


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
