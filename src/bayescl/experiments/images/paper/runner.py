"""Train every cell of a table over several seeds, and write its figures down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from bayescl._checks import check_choice, check_count
from bayescl._fields import check_fields
from bayescl.experiments.images.paper.sizes import PROTOCOL, SIZES, UNSTATED
from bayescl.experiments.images.paper.table import SECONDS, Cell, PaperTable
from bayescl.runs.devices import Device
from bayescl.runs.folder import RunFolder
from bayescl.runs.images.run import ImageRun, train_images
from bayescl.runs.images.settings import ImageSettings
from bayescl.runs.losses import BASELINE, SUBJECT
from bayescl.runs.parallel import Progress, train_runs
from bayescl.runs.run import Result, Work, run_in_folder
from bayescl.runs.statistics import mean_and_spread
from bayescl.vision.datasets import load_images


@dataclass(frozen=True)
class TableRequest:
    """Which part of a table to make, and at which size.

    Attributes:
        size: "smoke" or "paper".
        datasets: names of data sets with commas between; all of the table unless given.
        losses: names of losses with commas between; all of the table unless given.
        seeds: number of seeds; the table's own unless given.
        epochs: of every run; the size's own unless given. With others than its own, a table at
            the paper's size shows none of the paper's values.
        device: "auto", "cpu" or "cuda".

    Raises:
        ValueError: if a value is out of its range, or the paper's size is asked for where there
            is no GPU and "cpu" was not said.
    """

    size: str = "smoke"
    datasets: str = ""
    losses: str = ""
    seeds: int | None = None
    epochs: int | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_choice("size", self.size, SIZES)
        check_fields(self)
        for name in ("seeds", "epochs"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1)
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError("size paper takes weeks without a GPU: say --device cpu to try it")

    def cells(self, table: PaperTable) -> list[Cell]:
        """The cells asked for, with their settings.

        Raises:
            ValueError: if there is no such data set or loss in the table.
        """
        cells = table.cells(self.size)
        for wanted, name, values in (
            (self.datasets, "datasets", [cell.settings.data for cell in cells]),
            (self.losses, "losses", [cell.settings.loss.loss for cell in cells]),
        ):
            for one in _split(wanted):
                if one not in values:
                    known = ", ".join(dict.fromkeys(values))
                    raise ValueError(f"{name} must be some of {known} in this table, got {one!r}")
        chosen = [
            cell
            for cell in cells
            if cell.settings.data in (_split(self.datasets) or [cell.settings.data])
            and cell.settings.loss.loss in (_split(self.losses) or [cell.settings.loss.loss])
        ]
        own: dict[str, Any] = {} if self.epochs is None else {"epochs": self.epochs}
        return [
            replace(cell, settings=replace(cell.settings, device=self.device, **own))
            for cell in chosen
        ]

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command; losses only where some were chosen."""
        config = asdict(self)
        return config if self.losses else {key: config[key] for key in config if key != "losses"}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TableRequest:
        """The request that :meth:`as_config` wrote down.

        Raises:
            ValueError: if an option is unknown or out of range.
        """
        try:
            return cls(**config)
        except TypeError as error:
            raise ValueError(f"the settings of the table are damaged: {error}") from None

    def is_comparable(self, table: PaperTable) -> bool:
        """Whether the paper's values may stand beside ours."""
        own = {cell.settings.epochs for cell in table.cells(self.size)}
        return self.size == "paper" and (self.epochs is None or {self.epochs} == own)


def reproduce_table(
    table: PaperTable,
    request: TableRequest,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Train every cell over every seed, and write ``result.json``.

    Args:
        table: the table.
        request: which part of it, at which size.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: go on with the table in ``out``: finished runs are kept, a broken one goes on
            from its last checkpoint.
        workers: processes that train at a time, each with one thread; one if the table measures
            time.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds: every cell with our figures and the paper's, protocol,
        remarks, provenance.

    Raises:
        ValueError: if a data set cannot be used, or ``out`` is no place for the table or holds
            another one.
    """
    check_count("workers", workers, 1)
    cells = request.cells(table)
    runs = runs_of(cells, request.seeds or table.seeds[request.size])

    def begin() -> Work:
        # Bad input, a data set that is not there among it, is found before there is a folder.
        ImageRun(next(iter(runs.values())))
        for data in {cell.settings.data for cell in cells[1:]} - {cells[0].settings.data}:
            load_images(data)
        return carry_out

    def carry_out(folder: RunFolder) -> Result:
        results = train_runs(
            runs,
            folder.path / "runs",
            train=train_images,
            workers=1 if table.is_timed else workers,
            progress=progress,
        )
        return summary_of(table, request, cells, results)

    kind = f"reproduce {table.name}"
    return run_in_folder(out, kind, request, begin, resume=resume, what="table")


def runs_of(cells: list[Cell], seeds: int) -> dict[str, ImageSettings]:
    """The settings of every run by name, seed by seed, so that cells take turns."""
    return {
        f"{cell.name}-seed{seed}": replace(cell.settings, seed=seed)
        for seed in range(seeds)
        for cell in cells
    }


def summary_of(
    table: PaperTable,
    request: TableRequest,
    cells: list[Cell],
    results: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """A finished table as plain values.

    Args:
        table: the table.
        request: what was asked for.
        cells: its cells, as :meth:`TableRequest.cells` gives them.
        results: the ``result.json`` of every run, by the names of :func:`runs_of`.
    """
    seeds = request.seeds or table.seeds[request.size]
    comparable = request.is_comparable(table)
    rows = []
    for cell in cells:
        of_cell = [results[f"{cell.name}-seed{seed}"] for seed in range(seeds)]
        settings = cell.settings.as_config()
        del settings["seed"]
        rows.append(
            {
                "keys": dict(cell.keys),
                "measures": {
                    measure: mean_and_spread([_measured(one, measure) for one in of_cell])
                    for measure in table.measures
                },
                "paper": (
                    {name: asdict(figure) for name, figure in cell.paper.items()}
                    if comparable
                    else {}
                ),
                "settings": settings,
            }
        )
    remarks = [*table.remarks, *(UNSTATED if request.size == "paper" else ())]
    if request.size == "paper" and not comparable:
        remarks.insert(0, f"{request.epochs} epochs: the paper's values do not belong beside it.")
    return {
        "table": table.name,
        "title": table.title,
        "in_paper": table.label,
        "size": request.size,
        "protocol": PROTOCOL[request.size],
        "is_comparable": comparable,
        "seeds": list(range(seeds)),
        "spread": "standard deviation over seeds",
        "cells": rows,
        "remarks": remarks + (_ratios(cells, rows) if table.is_timed else []),
    }


def _measured(result: Mapping[str, Any], measure: str) -> float:
    """One measure of a run: accuracies in percent, as in the paper, or seconds."""
    if measure == SECONDS:
        return float(result[measure])
    return 100 * float(result["probes"][measure])


def _ratios(cells: list[Cell], rows: list[dict[str, Any]]) -> list[str]:
    """The Bayesian loss's seconds over InfoNCE's, pair by pair, for every data set."""
    seconds: dict[tuple[str, str], list[float]] = {
        (cell.settings.data, cell.settings.loss.loss): row["measures"][SECONDS]["values"]
        for cell, row in zip(cells, rows, strict=True)
    }
    said = []
    for data in dict.fromkeys(cell.settings.data for cell in cells):
        baseline, subject = seconds.get((data, BASELINE)), seconds.get((data, SUBJECT))
        if baseline and subject:
            pairs = zip(subject, baseline, strict=True)
            ratio = mean_and_spread([slow / fast for slow, fast in pairs])
            spread = "" if ratio["spread"] is None else f" ± {ratio['spread']:.3f}"
            said.append(
                f"{data}: an epoch with the Bayesian loss takes {ratio['mean']:.3f}{spread} times "
                "as long as one with InfoNCE."
            )
    return said


def _split(names: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in names.split(",") if name.strip()]
