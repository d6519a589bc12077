"""``bayescl simulate``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bayescl_lab._fields import CountOr0, Words
from bayescl_lab.cli._options import FLAT
from bayescl_lab.paper.simulation.settings import Settings

if TYPE_CHECKING:
    from bayescl_lab.paper.simulation.experiments import Experiment


def command(
    names: Words = (),
    *,
    all: bool = False,
    list: bool = False,
    out: str = "runs/simulation",
    seed: CountOr0 = 0,
    settings: Annotated[Settings, FLAT] = Settings(),
    page: str | None = None,
) -> int:
    """Run the numerical experiments and write a data file and a figure for each.

    A process generates labelled scores, and estimators of the true negatives' mean are compared
    with the labels. Tables are printed. Defaults are the paper's. If an experiment sweeps a
    parameter, its value here is ignored.

    Args:
        names: experiments to run; --list shows them. Comma-separated in a configuration file.
        all: run every experiment.
        list: show the experiments and exit.
        out: the folder for data files and figures; files of the same names are replaced.
        seed: seed for everything random; the same seed gives the same files.
        settings: of the process.
        page: a Markdown file whose quoted numbers are updated from the files.
    """
    from bayescl_lab._files import write_atomically
    from bayescl_lab.cli._console import console, table
    from bayescl_lab.paper.simulation.experiments import EXPERIMENTS, chosen
    from bayescl_lab.report.quoting import refreshed

    screen = console()
    if list:
        rows = [(experiment.name, experiment.summary) for experiment in EXPERIMENTS]
        screen.print(table("Experiments", ("name", "shows"), rows, words=2))
        return 0
    if bool(names) == all:
        raise ValueError("give either names of experiments or --all; --list shows the names")
    experiments = EXPERIMENTS if all else chosen([*names])
    text = None if page is None else Path(page).read_text(encoding="utf-8")
    folder = Path(out)
    _check_writable(folder)
    _run(experiments, settings, seed, folder)
    if page is not None and text is not None:
        write_atomically(Path(page), refreshed(text, Path(page).parent))
    screen.print(f"files: {folder}", soft_wrap=True)
    return 0


def _run(experiments: Sequence[Experiment], settings: Settings, seed: int, folder: Path) -> None:
    """Run the experiments under a progress bar, printing each one's tables as it ends."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from bayescl_lab.cli._console import console, table
    from bayescl_lab.paper.simulation.experiments import write

    screen = console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    total = sum(experiment.steps + 1 for experiment in experiments)
    bar = console(stderr=True)
    with Progress(*columns, console=bar, transient=True, disable=not bar.is_terminal) as progress:
        task = progress.add_task("starting", total=total)
        for experiment in experiments:
            progress.update(task, description=experiment.name)

            def tick(words: str, name: str = experiment.name) -> None:
                progress.update(task, advance=1, description=f"{name}: {words}")

            found = experiment.run(settings, seed, tick)
            folder.mkdir(parents=True, exist_ok=True)
            write(experiment, found, folder)
            progress.update(task, advance=1)
            for summary in experiment.summarise(found):
                title = f"{experiment.name}: {summary.title}"
                screen.print(table(title, summary.header, summary.rows, words=len(summary.header)))


def _check_writable(folder: Path) -> None:
    """Refuse a folder that is not writable."""
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to the folder {folder}: {nearest} is not a writable folder")
