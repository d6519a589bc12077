"""``bayescl reproduce`` for the paper's tables on images, one command each and one for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.cli._options import Circumstances
from bayescl_lab.paper.images.request import TableRequest

if TYPE_CHECKING:
    from bayescl_lab.runs.images.settings import ImageSettings

ITEMS = {
    "all": "Make every table of the paper on images, one after the other.",
    "binary": "Make the paper's table of two classes: four losses on four data sets.",
    "multiclass": "Make the paper's table of all classes: four losses on four data sets.",
    "negatives": "Make the paper's table of the number of negatives.",
    "hardness": "Make the paper's table of the hardness beta.",
    "prior": "Make the paper's table of the class prior tau_plus.",
    "runtime": "Measure seconds per epoch with InfoNCE and with the Bayesian loss.",
}
"""The commands of this file and their summaries."""


@dataclass(frozen=True)
class Download(Circumstances):
    """Whether to get data sets from their publishers.

    Attributes:
        fetch: first download the data sets that are not in the data folder.
    """

    fetch: bool = False


def command(
    item: str,
    *,
    request: TableRequest,
    download: Download,
    workers: Workers,
    place: Place,
) -> int:
    """At the paper's size, the table shows the paper's values beside ours.

    Args:
        item: the table.
        request: the part of the table.
        download: whether to get data.
        workers: parallel runs; one if time is measured.
        place: the folder; finished runs in it are kept.
    """
    from bayescl_lab.cli._console import EpochBar
    from bayescl_lab.cli._table_runs import RunLines, print_plan
    from bayescl_lab.paper.images import TABLES
    from bayescl_lab.paper.images.cost import costs_of
    from bayescl_lab.paper.images.runner import (
        ALL,
        reproduce_table,
        reproduce_tables,
        runs_of_tables,
    )
    from bayescl_lab.runs.folder import check_vacant

    folder = place.folder(f"{item}-{request.size}")
    tables = TABLES if item == ALL else {item: TABLES[item]}
    requests = request.within(TABLES.values()) if item == ALL else {item: request}
    runs: dict[str, ImageSettings] = {}
    left: dict[str, ImageSettings] = {}
    for table, own in runs_of_tables(tables, requests).items():
        for run, settings in own.items():
            name, path = (f"{table}/{run}", folder / table) if item == ALL else (run, folder)
            runs[name] = settings
            if not (path / "runs" / run / "result.json").is_file():
                left[name] = settings
    if not place.resume:
        check_vacant(folder)
    if download.fetch:
        _fetch_missing({settings.data for settings in left.values()})
    costs = dict(zip(left, costs_of(left.values()), strict=True))
    print_plan(costs, folder, f"bayescl reproduce {item} --resume --out {folder}")
    epochs = {name: settings.epochs for name, settings in runs.items()}
    with EpochBar(sum(epochs.values())) as bar, place.interruptible(f"reproduce {item}", folder):
        options: dict[str, Any] = {
            "resume": place.resume,
            "workers": workers.number(next(iter(runs.values())).torch_device(), len(runs)),
            "progress": RunLines(bar, costs, epochs),
        }
        if item == ALL:
            reproduce_tables(list(tables.values()), request, folder, finished=_show, **options)
        else:
            _show(reproduce_table(tables[item], request, folder, **options), folder)
    return 0


def _fetch_missing(names: set[str]) -> None:
    """Download the published data sets among some that are not there."""
    from bayescl_lab.cli._console import console
    from bayescl_lab.cli._data import fetch, is_there, sources

    for source in sources():
        if source.name in names and not is_there(source):
            fetch(source, console(stderr=True))


def _show(result: Mapping[str, Any], folder: Path) -> None:
    """Print a finished table, and write it into its folder."""
    from bayescl_lab._files import write_atomically
    from bayescl_lab.cli._console import console, table
    from bayescl_lab.report.images.paper_table import table_markdown, table_rows

    write_atomically(folder / "table.md", table_markdown(result))
    screen = console()
    header, rows, notes = table_rows(result)
    screen.print(table(result["title"], header, rows, words=len(header)))
    lines = [
        result["protocol"],
        *(f"[{number}] {note}." for number, note in enumerate(notes, start=1)),
        *(f"* {remark}" for remark in result["remarks"]),
    ]
    for line in lines:
        screen.print(line, markup=False)
    screen.print(f"figures: {folder / 'result.json'}\ntable: {folder / 'table.md'}", soft_wrap=True)
