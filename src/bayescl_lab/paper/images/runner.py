"""Train every cell of a table over several seeds, and write its figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bayescl_lab.compare.summary import SPREAD, mean_and_spread
from bayescl_lab.paper.images.request import TableRequest
from bayescl_lab.paper.images.sizes import DATA
from bayescl_lab.paper.images.tables import SECONDS, PaperTable
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import BASELINE, SUBJECT
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.run import Kind, Result, RunStart

ALL = "all"
"""Name of the command that makes every table."""


def reproduce_table(
    table: PaperTable,
    request: TableRequest,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
    elsewhere: Mapping[str, Path] | None = None,
) -> Result:
    """Train every requested cell over every seed, and write ``result.json``.

    Args:
        table: the table.
        request: the part of the table and its size.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: continue the table in ``out``; finished runs are kept.
        workers: number of parallel processes, each with one thread; one if the table measures time.
        progress: called after every epoch.
        elsewhere: folders of finished runs with the same settings, by the name of the run here.

    Returns:
        The content of ``result.json``: every cell with our figures and the paper's, and remarks.

    Raises:
        ValueError: if a data set cannot be used, or ``out`` cannot hold the table or holds another.
    """
    elsewhere = elsewhere or {}
    request.part_of([table])  # refuses what the table lacks
    runs = request.runs(table)
    start = RunStart(out, f"reproduce {table.name}", request, resume=resume)
    if start.result is not None:
        return start.result
    check_runs(runs.values())
    with start.work() as folder:
        results = {
            name: RunFolder.open(path, Kind.IMAGES).read_result()
            for name, path in elsewhere.items()
        }
        results |= train_runs(
            {name: settings for name, settings in runs.items() if name not in elsewhere},
            folder.path / "runs",
            train=train_images,
            workers=1 if table.is_timed else workers,
            progress=progress,
        )
    return start.finish(summary_of(table, request, results))


def reproduce_tables(
    tables: Sequence[PaperTable],
    request: TableRequest,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
    finished: Callable[[Result, Path], None] = lambda *_: None,
) -> Result:
    """Make several tables one after the other; what two of them share is trained once.

    Arguments are those of :func:`reproduce_table`. Every table has its own folder in ``out``,
    progress counts the epochs of all, and ``finished`` is called with each table's result and
    folder.
    """
    plan = runs_of_tables(tables, request)
    start = RunStart(out, f"reproduce {ALL}", request, resume=resume)
    if start.result is not None:
        return start.result
    check_runs(settings for runs in plan.values() for settings in runs.values())
    places: dict[str, Path] = {}
    before = 0

    def report(run: str, epoch: float, done: float) -> None:
        if progress is not None:
            progress(f"{name}/{run}", epoch, before + done)

    with start.work() as folder:
        for table in request.part_of(tables):
            name, path = table.name, folder.path / table.name
            runs = request.runs(table)
            places |= {_identity(plan[name][run]): path / "runs" / run for run in plan[name]}
            result = reproduce_table(
                table,
                request,
                path,
                resume=path.is_dir(),
                workers=workers,
                progress=report,
                elsewhere={run: places[_identity(runs[run])] for run in runs.keys() - plan[name]},
            )
            before += sum(settings.epochs for settings in plan[name].values())
            finished(result, path)
    return start.finish({"tables": list(plan)})


def check_runs(runs: Iterable[ImageSettings]) -> None:
    """Refuse bad input, such as a data set that is not there, before there is a folder."""
    for settings in {(run.data, run.classes): run for run in runs}.values():
        ImageRun(settings)


def runs_of_tables(
    tables: Sequence[PaperTable], request: TableRequest
) -> dict[str, dict[str, ImageSettings]]:
    """The runs to train for each table: those that no table before it has, and all timed ones."""
    known: set[str] = set()
    plan = {}
    for table in request.part_of(tables):
        runs = request.runs(table)
        plan[table.name] = {
            run: settings
            for run, settings in runs.items()
            if table.is_timed or _identity(settings) not in known
        }
        known |= set(map(_identity, runs.values()))
    return plan


def _identity(settings: ImageSettings) -> str:
    """Equal for runs that come to the same figures."""
    return json.dumps(settings.as_config(), sort_keys=True)


def summary_of(
    table: PaperTable, request: TableRequest, results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """A finished table as plain values, from every run's ``result.json``."""
    seeds = request.seeds_of(table)
    comparable = request.is_comparable(table)
    rows = []
    seconds: dict[str, dict[str, list[float]]] = {}
    for cell in request.cells(table):
        of_cell = [results[f"{cell.name}-seed{seed}"] for seed in seeds]
        measures = {
            measure: mean_and_spread([_measured(result, measure) for result in of_cell])
            for measure in table.measures
        }
        if table.is_timed:
            by_loss = seconds.setdefault(cell.settings.data, {})
            by_loss[cell.settings.loss.loss] = measures[SECONDS]["values"]
        paper = {name: asdict(figure) for name, figure in cell.paper.items() if comparable}
        settings = cell.settings.as_config()
        del settings["seed"]
        rows.append(
            {"keys": dict(cell.keys), "measures": measures, "paper": paper, "settings": settings}
        )
    remarks = [*table.remarks, *(DATA["unstated"] if request.size == "paper" else ())]
    if request.ranks == "mid":
        remarks.append("The Bayesian loss counts ranks at their middle, the paper upper ranks.")
    if request.size == "paper" and not comparable:
        changes = [] if request.epochs is None else [f"{request.epochs} epochs"]
        if request.max_train_images is not None:
            changes.append(f"at most {request.max_train_images} images")
        remarks.insert(0, f"{', '.join(changes)}: the paper's values are left out.")
    return {
        "table": table.name,
        "title": table.title,
        "in_paper": table.label,
        "size": request.size,
        "ranks": request.ranks,
        "protocol": DATA["protocol"][request.size],
        "is_comparable": comparable,
        "seeds": list(seeds),
        "spread": SPREAD,
        "cells": rows,
        "remarks": remarks + _ratios(seconds),
    }


def _measured(result: Mapping[str, Any], measure: str) -> float:
    """One measure of a run: accuracies in percent, as in the paper, or seconds."""
    if measure == SECONDS:
        return float(result[measure])
    return 100 * float(result["probes"][measure])


def _ratios(seconds: Mapping[str, Mapping[str, list[float]]]) -> list[str]:
    """Ratio of the Bayesian loss's seconds to InfoNCE's, for every data set."""
    sentences = []
    for data, by_loss in seconds.items():
        if {BASELINE, SUBJECT} <= by_loss.keys():
            pairs = zip(by_loss[SUBJECT], by_loss[BASELINE], strict=True)
            ratio = mean_and_spread([slow / fast for slow, fast in pairs])
            spread = "" if ratio["spread"] is None else f" ± {ratio['spread']:.3f}"
            sentences.append(
                f"{data}: an epoch with the Bayesian loss takes {ratio['mean']:.3f}{spread} times "
                "as long as one with InfoNCE."
            )
    return sentences
