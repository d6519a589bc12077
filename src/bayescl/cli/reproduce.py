"""``bayescl reproduce`` for the paper's tables on images, one command each."""

from __future__ import annotations

from typing import Literal

from bayescl._fields import Count
from bayescl.cli._folders import Place, Workers

ITEMS = {
    "binary": "Make the paper's table of two classes: four losses on four data sets.",
    "multiclass": "Make the paper's table of all classes: four losses on four data sets.",
    "negatives": "Make the paper's table of the number of negatives.",
    "hardness": "Make the paper's table of the hardness beta.",
    "prior": "Make the paper's table of the class prior tau_plus.",
    "runtime": "Measure seconds per epoch with InfoNCE and with the Bayesian loss.",
}
"""The commands of this file and what they do."""


def command(
    item: str,
    *,
    size: Literal["smoke", "paper"] = "smoke",
    datasets: str = "",
    losses: str = "",
    seeds: Count | None = None,
    epochs: Count | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    workers: Workers,
    place: Place,
) -> int:
    """At the paper's size, the paper's values stand beside ours.

    Args:
        item: which.
        size: smoke takes minutes on a CPU with scikit-learn's digits; paper needs a GPU.
        datasets: some of the table's data sets, with commas between; default: all.
        losses: some of the table's losses, with commas between; default: all.
        seeds: number of seeds; default: the table's own.
        epochs: of every run; default: the size's own. With others no value of the paper is shown.
        device: what trains.
        workers: runs at a time; one where time is measured.
        place: the folder; finished runs in it are kept.
    """
    from bayescl._files import write_atomically
    from bayescl.cli._console import EpochBar, console, table
    from bayescl.experiments.images.paper import TABLES
    from bayescl.experiments.images.paper.runner import TableRequest, reproduce_table
    from bayescl.report.images.paper_table import table_markdown, table_rows

    made = TABLES[item]
    request = TableRequest(size, datasets, losses, seeds, epochs, device)
    if losses and not made.has_losses:
        raise ValueError(f"the table {item} has no losses to choose from, got {losses}")
    cells = request.cells(made)
    runs = len(cells) * (seeds or made.seeds[size])
    folder = place.folder(f"{item}-{size}")
    total = sum(cell.settings.epochs for cell in cells) * (seeds or made.seeds[size])
    with EpochBar(total) as bar:
        result = reproduce_table(
            made,
            request,
            folder,
            resume=place.resume,
            workers=workers.number(cells[0].settings.torch_device(), runs),
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
