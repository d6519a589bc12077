"""``bayescl simulate``."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayescl.simulation.experiments import Experiment
    from bayescl.simulation.settings import Settings


def command(
    *,
    names: str = "",
    all: bool = False,
    list: bool = False,
    out: str = "runs/simulation",
    seed: int = 0,
    anchors: int = 1000,
    candidates: int = 64,
    alpha: float = 0.9,
    beta: float = 0.5,
    gamma: float = 0.1,
    tau_plus: float = 0.1,
    temperature: float = 0.5,
    positives: int = 10,
    concentration: float = 1.0,
    proposal: str = "slide",
    sampler: str = "inversion",
    draws: int = 20,
    page: str | None = None,
) -> int:
    """Run the numerical experiments: a data file and a figure of each, and tables on screen.

    A process generates labelled scores, and estimators of the true negatives' mean are held
    against the labels. Defaults are the paper's. A swept parameter takes its swept values
    whatever is given here.

    Args:
        names: experiments to run, typed right after the command or, with commas between them, here;
            --list shows them.
        all: run every experiment.
        list: show the experiments and stop.
        out: the folder for data files and figures; files of the same names are replaced.
        seed: seed of all randomness; the same seed gives the same files.
        anchors: number M of anchors in one draw of an experiment.
        candidates: number N of unlabeled candidates per anchor.
        alpha: quality of the encoder, 0.5 to 1: how densities of positives and negatives mix.
        beta: hardness, 0.5 (none) to 1.
        gamma: how far an anchor's proposal interval may slide, 0 to 1.
        tau_plus: prior probability that a candidate is a positive, between 0 and 1.
        temperature: softmax scale t.
        positives: number K of positives that the debiased and hard estimators see.
        concentration: exponent of the hard estimator, 0 or more.
        proposal: family of the anchors' distributions: slide, script or normal.
        sampler: inversion or accept-reject; both draw from the same densities.
        draws: how often an experiment is repeated; bands show the scatter.
        page: a Markdown file whose quoted numbers are to be brought up to date from the files.
    """
    from rich.table import Table as Screen

    from bayescl._checks import check_count
    from bayescl._files import write_atomically
    from bayescl.cli._console import console
    from bayescl.report.quoting import refreshed
    from bayescl.simulation.experiments import EXPERIMENTS, chosen
    from bayescl.simulation.settings import Settings

    check_count("seed", seed, 0)
    screen = console()
    if list:
        listing = Screen("name", "shows", title="Experiments", title_justify="left")
        for experiment in EXPERIMENTS:
            listing.add_row(experiment.name, experiment.summary)
        screen.print(listing)
        return 0
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    if bool(wanted) == all:
        raise ValueError("name some experiments or give --all, not both; --list shows the names")
    experiments = EXPERIMENTS if all else chosen(wanted)
    settings = Settings(
        anchors=anchors,
        candidates=candidates,
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        tau_plus=tau_plus,
        temperature=temperature,
        positives=positives,
        concentration=concentration,
        proposal=proposal,
        sampler=sampler,
        draws=draws,
    )
    text = None if page is None else Path(page).read_text(encoding="utf-8")
    folder = _writable(Path(out))
    _run(experiments, settings, seed, folder)
    if page is not None and text is not None:
        write_atomically(Path(page), refreshed(text, Path(page).parent))
    screen.print(f"files: {folder}", soft_wrap=True)
    return 0


def _run(experiments: Sequence[Experiment], settings: Settings, seed: int, folder: Path) -> None:
    """Run the experiments under a progress bar, printing each one's tables as it ends."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table as Screen

    from bayescl.cli._console import console
    from bayescl.simulation.experiments import write

    screen = console()
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    total = sum(experiment.steps + 1 for experiment in experiments)
    with Progress(*columns, console=console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=total)
        for experiment in experiments:
            progress.update(task, description=experiment.name)

            def tick(words: str, name: str = experiment.name) -> None:
                progress.update(task, advance=1, description=f"{name}: {words}")

            table = experiment.run(settings, seed, tick)
            write(experiment, table, folder)
            progress.update(task, advance=1)
            for summary in experiment.summarise(table):
                title = f"{experiment.name}: {summary.title}"
                shown = Screen(*summary.header, title=title, title_justify="left")
                for row in summary.rows:
                    shown.add_row(*row)
                screen.print(shown)


def _writable(folder: Path) -> Path:
    """The folder, made if need be; refused if no file can be made in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        raise ValueError(f"cannot write to the folder {folder}: {error.strerror}") from None
