"""``bayescl simulate``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from bayescl_lab._fields import CountOr0, Words
from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import Bar, console, say, table
from bayescl_lab.cli._options import FLAT
from bayescl_lab.paper.simulation.process import Settings


def command(
    names: Words = (),
    *,
    list: bool = False,
    out: str = "runs/simulation",
    seed: CountOr0 = 0,
    settings: Annotated[Settings, FLAT] = Settings(),
) -> int:
    """Run the numerical experiments and write a data file and a figure for each.

    A process generates labelled scores, and estimators of the true negatives' mean are compared
    with the labels. What each experiment says is printed; an HTML page has the figures.
    Defaults are the paper's. If an experiment sweeps a parameter, its value here is ignored.

    Args:
        names: experiments to run; --list shows them. Default: all. Comma-separated in a
            configuration file.
        list: show the experiments and exit.
        out: the folder for data files and figures; files of the same names are replaced.
        seed: seed for everything random; the same seed gives the same files.
    """
    from bayescl_lab.paper.simulation.experiments import EXPERIMENTS, chosen, write
    from bayescl_lab.report.html import SIMULATION, report_page
    from bayescl_lab.runs.folder import as_json

    if list:
        rows = [(experiment.name, experiment.summary) for experiment in EXPERIMENTS]
        console().print(table("Experiments", ("name", "shows"), rows, words=2))
        return 0
    experiments = chosen([*names]) if names else EXPERIMENTS
    folder = Path(out)
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to the folder {folder}: {nearest} is not a writable folder")
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(len(experiments), *columns) as bar:
        for number, experiment in enumerate(experiments):

            def tick(share: float, name: str = experiment.name, before: int = number) -> None:
                bar.update(name, before + share)

            tick(0.0)
            result = experiment.run(settings, seed, tick)
            folder.mkdir(parents=True, exist_ok=True)
            write(experiment, result, folder)
            say(f"{experiment.name}: {experiment.finding(result) or experiment.summary}")
    write_atomically(folder / SIMULATION, as_json({"seed": seed, **asdict(settings)}))
    write_atomically(folder / "report.html", report_page([folder]))
    say(f"files: {folder}", f"page: {folder / 'report.html'}")
    return 0
