"""What the commands ``bayescl reproduce`` for the paper's image tables share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def reproduce(
    name: str,
    *,
    size: str,
    datasets: str,
    losses: str = "",
    seeds: int | None,
    epochs: int | None,
    device: str,
    workers: int | None,
    out: str | None,
    resume: bool,
) -> int:
    """Make one table and print it.

    Args:
        name: of the table.
        size: smoke or paper.
        datasets: some of its data sets, with commas between.
        losses: some of its losses, with commas between.
        seeds: number of seeds.
        epochs: of every run.
        device: auto, cpu or cuda.
        workers: runs at a time.
        out: the folder.
        resume: go on with the table in the folder.
    """
    from rich.markup import escape
    from rich.table import Table

    from bayescl._cores import usable_cores
    from bayescl._files import write_atomically
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._images import default_folder
    from bayescl.experiments.images.paper import TABLES
    from bayescl.experiments.images.paper.runner import TableRequest, reproduce_table
    from bayescl.report.images.paper_table import table_markdown, table_rows

    table = TABLES[name]
    request = TableRequest(size, datasets, losses, seeds, epochs, device)
    cells = request.cells(table)
    if workers is None:
        # On a GPU runs would only wait for one another.
        on_cpu = cells[0].settings.torch_device().type == "cpu"
        workers = usable_cores() if on_cpu else 1
    folder = Path(out) if out is not None else default_folder(f"{name}-{size}", datetime.now())
    total = sum(cell.settings.epochs for cell in cells) * (seeds or table.seeds[size])
    with EpochBar(total) as bar:
        result = reproduce_table(
            table,
            request,
            folder,
            resume=resume,
            workers=workers,
            progress=lambda run, _, done: bar.update(run, done),
        )
    write_atomically(folder / "table.md", table_markdown(result))
    screen = console()
    header, rows, notes = table_rows(result)
    shown = Table(*header, title=result["title"], title_justify="left")
    for row in rows:
        shown.add_row(*map(escape, row))
    screen.print(shown)
    screen.print(result["protocol"])
    for number, note in enumerate(notes, start=1):
        screen.print(escape(f"[{number}] {note}."))
    for remark in result["remarks"]:
        screen.print(f"* {remark}")
    screen.print(f"figures: {folder / 'result.json'}\ntable: {folder / 'table.md'}", soft_wrap=True)
    return 0
