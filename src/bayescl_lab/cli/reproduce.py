"""``bayescl reproduce``: the paper's tables on images, one or all, and its ranking table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from bayescl_lab.cli._console import Bar, EpochBar, print_guesses, say, show
from bayescl_lab.cli._options import (
    FLAT,
    RUNTIME_OPTION,
    RUNTIME_OPTIONS,
    Place,
    Workers,
    usual_workers,
)
from bayescl_lab.compare.ranking_plans import RankingRequest
from bayescl_lab.paper.images.request import TableRequest

if TYPE_CHECKING:
    from bayescl_lab.runs.images.settings import ImageSettings


def reproduce(
    table: Literal["all", "binary", "multiclass", "negatives", "hardness", "prior", "runtime"],
    *,
    request: Annotated[TableRequest, FLAT] = TableRequest(),
    fetch: Annotated[bool, RUNTIME_OPTION] = False,
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Make the paper's tables on images, one or all.

    At the paper's size, a table shows the paper's values beside ours.

    Args:
        table: four losses on four data sets, of two classes (binary) or of all (multiclass); the
            number of negatives; the hardness beta; the class prior tau_plus; or seconds per epoch
            with InfoNCE and with the Bayesian loss (runtime).
        fetch: first download the data sets that are not in the data folder.
        workers: parallel runs, one thread each; default: one per core, or one on a GPU.
    """
    from bayescl_lab.cli.data import download_missing
    from bayescl_lab.paper.images.runner import (
        ALL,
        check_runs,
        reproduce_table,
        reproduce_tables,
        runs_of_tables,
    )
    from bayescl_lab.paper.images.tables import TABLES
    from bayescl_lab.runs.folder import check_vacant

    folder = place.folder(f"{table}-{request.size}")
    tables = list(TABLES.values()) if table == ALL else [TABLES[table]]
    runs: dict[str, ImageSettings] = {}
    left: dict[str, ImageSettings] = {}
    for part, runs_of_part in runs_of_tables(tables, request).items():
        for run, settings in runs_of_part.items():
            name, path = (f"{part}/{run}", folder / part) if table == ALL else (run, folder)
            runs[name] = settings
            if not (path / "runs" / run / "result.json").is_file():
                left[name] = settings
    if not place.resume:
        check_vacant(folder)
    if fetch:
        download_missing({settings.data for settings in left.values()})
    check_runs(left.values())
    say(
        f"{len(left)} runs to train, {sum(run.epochs for run in left.values()):,} epochs in all",
        f"to continue after an interruption: bayescl reproduce {table} --resume --out {folder}",
        stderr=True,
    )
    device = next(iter(runs.values())).torch_device()
    epochs = sum(run.epochs for run in runs.values())
    with EpochBar(epochs) as bar, place.interruptible(f"reproduce {table}", folder):
        options: dict[str, Any] = {
            "resume": place.resume,
            "workers": workers or usual_workers(device, len(runs)),
            "progress": lambda run, _, done: bar.tell(run, done),
        }
        if table == ALL:
            reproduce_tables(tables, request, folder, finished=_show, **options)
        else:
            _show(reproduce_table(tables[0], request, folder, **options), folder)


def ranking(
    *,
    request: Annotated[RankingRequest, FLAT] = RankingRequest(),
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Make the paper's ranking table: choose settings, then judge on test.

    For every data set and encoder, the same number of settings is tried for each loss on a
    validation part held out of training. Each loss is then trained on the whole training part with
    the chosen settings, once per seed, and evaluated on the test part. The table also has
    popularity, EASE and iALS, chosen in the same way, and the paper's figures.

    Args:
        workers: parallel runs, one thread each; default: 1.
    """
    from bayescl_lab.cli.compare import print_cell
    from bayescl_lab.paper.ranking.reproduction import KIND, check_cell, reproduce_cell
    from bayescl_lab.report.figures import collect
    from bayescl_lab.runs.folder import RunFolder

    cells = request.cells()
    path = place.folder(f"ranking-{'-'.join(request.data)}")
    if place.resume:
        folder = RunFolder.open(path, KIND)
        request.resume_from(RankingRequest.from_config(folder.config()))
    else:
        for cell in cells:
            print_guesses(cell.plan.fixed.data)
            check_cell(cell)
        folder = RunFolder.create(path, KIND, asdict(request))
    collected = folder.path if request.results is None else Path(request.results)
    for number, cell in enumerate(cells, start=1):
        with EpochBar(cell.most_epochs()) as bar:

            def show(run: str, _: float, done: float, bar: Bar = bar, number: int = number) -> None:
                bar.tell(f"{number} of {len(cells)}: {run}", done)

            made = reproduce_cell(
                cell,
                folder.path / cell.name,
                baselines=folder.path / cell.baselines_name,
                workers=workers or 1,
                progress=show,
            )
        collect(collected, cell.name, made)
        print_cell(made)
    say(f"table: {collected / 'table.md'}")


def _show(result: Mapping[str, Any], folder: Path) -> None:
    """Print a finished table, and write it into its folder."""
    from bayescl_lab._files import write_atomically
    from bayescl_lab.report.images import paper_markdown, paper_table

    write_atomically(folder / "table.md", paper_markdown(result))
    shown = paper_table(result)
    show(result["title"], shown)
    say(
        shown.title,
        shown.note,
        *(f"* {remark}" for remark in result["remarks"]),
        f"figures: {folder / 'result.json'}",
        f"table: {folder / 'table.md'}",
    )
