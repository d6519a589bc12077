"""``bayescl reproduce ranking``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bayescl._fields import Count
from bayescl.cli._folders import Place, Workers
from bayescl.runs.ranking.data import Split

if TYPE_CHECKING:
    from bayescl.cli._console import EpochBar


def command(
    *,
    data: tuple[str, ...] = ("ml-100k",),
    split: Split | None = None,
    encoders: tuple[str, ...] = ("mf", "lightgcn"),
    losses: tuple[str, ...] = (),
    seeds: Count = 5,
    size: Literal["full", "smoke"] = "full",
    results: str | None = None,
    workers: Workers,
    place: Place,
) -> int:
    """Make the paper's ranking table: choose settings on validation, then judge on test.

    For every data set and encoder the same number of settings is tried for each loss on a
    validation part that training leaves out; each loss is then trained once more on all of the
    training part with what was chosen, with every seed, and judged on the test part. Popularity
    and EASE, chosen in the same way, and the paper's figures stand beside.

    Args:
        data: names of data sets, with commas between, or the path of one.
        split: how the test part comes about; "author" is the paper's, for ml-100k.
        encoders: mf and lightgcn, with commas between.
        losses: with commas between; default: all that the plan of a data set has.
        seeds: number of seeds of the runs on test.
        size: full, or smoke to see in a minute that everything works.
        results: a folder that collects what several calls made; table and figure are made from
            all in it; default: the folder of this call.
        workers: runs at a time.
        place: the folder; finished runs in it are kept.
    """
    from bayescl.cli._console import EpochBar, console
    from bayescl.experiments.ranking.reproduction import KIND, planned_cells, reproduce_cell
    from bayescl.report.ranking.collection import collect
    from bayescl.runs.folder import RunFolder

    cells = planned_cells(data, encoders, losses, split=split, seeds=seeds, size=size)
    path = place.folder(f"ranking-{'-'.join(data)}")
    if place.resume:
        folder = RunFolder.open(path, KIND)
    else:
        for cell in cells:
            cell.check()
        config = {
            "data": ",".join(data),
            "split": split,
            "encoders": ",".join(encoders),
            "losses": ",".join(losses),
            "seeds": seeds,
            "size": size,
            "results": results,
        }
        folder = RunFolder.create(path, KIND, config)
    collected = folder.path if results is None else Path(results)
    for number, cell in enumerate(cells, start=1):
        words = f"{number} of {len(cells)}"
        with EpochBar(cell.most_epochs()) as bar:
            made = reproduce_cell(
                cell,
                folder.path / cell.name,
                workers=workers.workers or 1,
                progress=partial(_show, bar, words),
            )
        collect(collected, cell.name, made)
    console().print(f"table: {collected / 'table.md'}", soft_wrap=True)
    return 0


def _show(bar: EpochBar, words: str, run: str, _: int, done: float) -> None:
    """Show how many epochs of a cell are done."""
    bar.update(f"{words}: {run}", done)
