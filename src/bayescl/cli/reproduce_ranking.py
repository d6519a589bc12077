"""``bayescl reproduce ranking``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path


def command(
    *,
    data: str = "ml-100k",
    split: str | None = None,
    encoders: str = "mf,lightgcn",
    losses: str = "",
    seeds: int = 5,
    size: str = "full",
    results: str | None = None,
    workers: int = 1,
    out: str | None = None,
    resume: bool = False,
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
        losses: with commas between; all that the plan of a data set has unless given.
        seeds: number of seeds of the runs on test.
        size: full, or smoke to see in a minute that everything works.
        results: a folder that collects what several calls made; table and figure are made from
            all in it. The folder of this call unless given.
        workers: runs at a time, one thread each.
        out: the folder; a new one under runs/ unless given.
        resume: go on with what is in the folder; finished runs are kept.
    """
    from bayescl.cli._console import EpochBar, console
    from bayescl.cli._ranking import default_folder
    from bayescl.experiments.ranking.reproduction import KIND, planned_cells, reproduce_cell
    from bayescl.report.ranking.collection import collect
    from bayescl.runs.folder import RunFolder

    cells = planned_cells(
        _names(data), _names(encoders), _names(losses), split=split, seeds=seeds, size=size
    )
    config = {
        "data": data,
        "split": split,
        "encoders": encoders,
        "losses": losses,
        "seeds": seeds,
        "size": size,
        "results": results,
    }
    place = Path(out) if out is not None else default_folder(f"ranking-{data}", datetime.now())
    if resume:
        folder = RunFolder.open(place, KIND)
    else:
        for cell in cells:
            cell.check()
        folder = RunFolder.create(place, KIND, config)
    collected = folder.path if results is None else Path(results)
    for number, cell in enumerate(cells, start=1):
        with EpochBar(cell.most_epochs()) as bar:
            made = reproduce_cell(
                cell,
                folder.path / cell.name,
                workers=workers,
                progress=lambda run, _, done, number=number: bar.update(
                    f"{number} of {len(cells)}: {run}", done
                ),
            )
        collect(collected, cell.name, made)
    console().print(f"table: {collected / 'table.md'}", soft_wrap=True)
    return 0


def _names(text: str) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in text.split(",") if name.strip()]
