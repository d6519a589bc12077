"""The experiments by name: their computation, their figure, and what they say.

Needs Matplotlib, Polars, and SciPy for one of them; ``pip install 'bayescl[cli]'`` brings all.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.paper.simulation import curves, latent, lemmas, model, sweeps
from bayescl_lab.paper.simulation.frames import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *curves.EXPERIMENTS,
    *model.EXPERIMENTS,
    *sweeps.EXPERIMENTS,
    *lemmas.EXPERIMENTS,
    *latent.EXPERIMENTS,
)
"""Every experiment, in the order of lists and pages."""


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
