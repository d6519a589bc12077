"""``bayescl simulate``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

from bayescl_lab._fields import CountOr0, Words
from bayescl_lab.cli._console import Bar, say
from bayescl_lab.cli._options import FLAT
from bayescl_lab.paper.simulation.process import Settings


def simulate(
    names: Words = (),
    *,
    out: Path = Path("runs/simulation"),
    seed: CountOr0 = 0,
    settings: Annotated[Settings, FLAT] = Settings(),
) -> None:
    """Run the numerical experiments and write a data file and a figure for each.

    Labeled scores are generated, and estimators of the mean over true negatives are compared with
    the labels. The defaults are the paper's. If an experiment varies a parameter, its option is
    ignored.

    Args:
        names: Experiments to run: densities, weights, pair-order, mse, means and hard. Default:
            all.
        out: Folder for data files and figures. Existing files are replaced.
        seed: Seed of all random numbers. The same seed gives the same files.
    """
    from bayescl_lab.paper.simulation.experiments import chosen, write
    from bayescl_lab.runs.folder import check_writable, write_json

    experiments = chosen(names)
    check_writable(out)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(len(experiments), *columns) as bar:
        for number, experiment in enumerate(experiments):

            def tick(share: float, name: str = experiment.name, before: int = number) -> None:
                bar.tell(before + share, name)

            tick(0.0)
            result = experiment.run(settings, seed, tick)
            out.mkdir(parents=True, exist_ok=True)
            write(experiment, result, out)
            say(f"{experiment.name}: {experiment.summary}")
    write_json(out / "simulation.json", {"seed": seed, **asdict(settings)})
    say(f"files: {out}")
