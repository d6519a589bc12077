"""``bayescl reproduce`` for the paper's tables on images, one command each."""

from __future__ import annotations

from bayescl.cli._folders import Place, Workers
from bayescl.experiments.images.paper.request import TableRequest

ITEMS = {
    "binary": "Make the paper's table of two classes: four losses on four data sets.",
    "multiclass": "Make the paper's table of all classes: four losses on four data sets.",
    "negatives": "Make the paper's table of the number of negatives.",
    "hardness": "Make the paper's table of the hardness beta.",
    "prior": "Make the paper's table of the class prior tau_plus.",
    "runtime": "Measure seconds per epoch with InfoNCE and with the Bayesian loss.",
}
"""The commands of this file and their summaries."""


def command(
    item: str,
    *,
    request: TableRequest,
    workers: Workers,
    place: Place,
) -> int:
    """At the paper's size, the table shows the paper's values beside ours.

    Args:
        item: the table.
        request: the part of the table.
        workers: parallel runs; one if time is measured.
        place: the folder; finished runs in it are kept.
    """
    from bayescl._files import write_atomically
    from bayescl.cli._console import EpochBar, console, table
    from bayescl.experiments.images.paper import TABLES
    from bayescl.experiments.images.paper.runner import reproduce_table
    from bayescl.report.images.paper_table import table_markdown, table_rows

    made = TABLES[item]
    runs = request.runs(made)
    some = next(iter(runs.values()))
    folder = place.folder(f"{item}-{request.size}")
    with EpochBar(sum(run.epochs for run in runs.values())) as bar:
        result = reproduce_table(
            made,
            request,
            folder,
            resume=place.resume,
            workers=workers.number(some.torch_device(), len(runs)),
            progress=lambda run, _, done: bar.update(run, done),
        )
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
    return 0
