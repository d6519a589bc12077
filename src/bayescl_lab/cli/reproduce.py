"""``bayescl reproduce`` for the paper's tables on images, one command each and one for all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT
from bayescl_lab.paper.images.request import TableRequest

if TYPE_CHECKING:
    from bayescl_lab.paper.images.tables import PaperTable
    from bayescl_lab.runs.images.settings import ImageSettings


@dataclass(frozen=True)
class Download:
    """Whether to get data sets from their publishers.

    Attributes:
        fetch: first download the data sets that are not in the data folder.
    """

    fetch: bool = False


def command(
    table: Literal["all", "binary", "multiclass", "negatives", "hardness", "prior", "runtime"],
    *,
    request: Annotated[TableRequest, FLAT] = TableRequest(),
    download: Annotated[Download, CIRCUMSTANCES] = Download(),
    workers: Annotated[Workers, CIRCUMSTANCES] = Workers(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Make the paper's tables on images, one or all.

    At the paper's size, a table shows the paper's values beside ours.

    Args:
        table: four losses on four data sets, of two classes (binary) or of all (multiclass); the
            number of negatives; the hardness beta; the class prior tau_plus; or seconds per epoch
            with InfoNCE and with the Bayesian loss (runtime).
        request: the part of the table.
        download: whether to get data.
        workers: parallel runs; one if time is measured.
        place: the folder; finished runs in it are kept.
    """
    from bayescl_lab.cli._console import EpochBar
    from bayescl_lab.cli._table_runs import RunLines, print_plan
    from bayescl_lab.paper.images.cost import costs_of
    from bayescl_lab.paper.images.runner import (
        ALL,
        reproduce_table,
        reproduce_tables,
        runs_of_tables,
    )
    from bayescl_lab.paper.images.tables import TABLES
    from bayescl_lab.runs.folder import check_vacant

    folder = place.folder(f"{table}-{request.size}")
    tables: Mapping[str, PaperTable] = TABLES if table == ALL else {table: TABLES[table]}
    requests: Mapping[str, TableRequest] = {table: request}
    if table == ALL:
        requests = request.within(TABLES.values())
    runs: dict[str, ImageSettings] = {}
    left: dict[str, ImageSettings] = {}
    for one, own in runs_of_tables(tables, requests).items():
        for run, settings in own.items():
            name, path = (f"{one}/{run}", folder / one) if table == ALL else (run, folder)
            runs[name] = settings
            if not (path / "runs" / run / "result.json").is_file():
                left[name] = settings
    if not place.resume:
        check_vacant(folder)
    if download.fetch:
        _fetch_missing({settings.data for settings in left.values()})
    costs = dict(zip(left, costs_of(left.values()), strict=True))
    print_plan(costs, folder, f"bayescl reproduce {table} --resume --out {folder}")
    epochs = {name: settings.epochs for name, settings in runs.items()}
    with EpochBar(sum(epochs.values())) as bar, place.interruptible(f"reproduce {table}", folder):
        options: dict[str, Any] = {
            "resume": place.resume,
            "workers": workers.number(next(iter(runs.values())).torch_device(), len(runs)),
            "progress": RunLines(bar, costs, epochs),
        }
        if table == ALL:
            reproduce_tables(list(tables.values()), request, folder, finished=_show, **options)
        else:
            _show(reproduce_table(tables[table], request, folder, **options), folder)
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
    from bayescl_lab.cli._console import console, say, table
    from bayescl_lab.report.images.paper_table import table_markdown, table_rows

    write_atomically(folder / "table.md", table_markdown(result))
    header, rows, notes = table_rows(result)
    console().print(table(result["title"], header, rows, words=len(header)))
    say(
        result["protocol"],
        *(f"[{number}] {note}." for number, note in enumerate(notes, start=1)),
        *(f"* {remark}" for remark in result["remarks"]),
        f"figures: {folder / 'result.json'}",
        f"table: {folder / 'table.md'}",
    )
