"""``bayescl reproduce ranking``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.cli._options import CIRCUMSTANCES, FLAT
from bayescl_lab.compare.ranking_plans import RankingRequest

if TYPE_CHECKING:
    from bayescl_lab.cli._console import EpochBar


def command(
    *,
    request: Annotated[RankingRequest, FLAT] = RankingRequest(),
    workers: Annotated[Workers, CIRCUMSTANCES] = Workers(),
    place: Annotated[Place, CIRCUMSTANCES] = Place(),
) -> int:
    """Make the paper's ranking table: choose settings on validation, then judge on test.

    For every data set and encoder, the same number of settings is tried for each loss on a
    validation part held out of training. Each loss is then trained on the whole training part with
    the chosen settings, once per seed, and evaluated on the test part. The table also has
    popularity, EASE and iALS, chosen in the same way, and the paper's figures.

    Args:
        request: the cells of the table.
        workers: parallel runs.
        place: the folder; finished runs in it are kept.
    """
    from bayescl_lab.cli._comparison import print_cell
    from bayescl_lab.cli._console import EpochBar, say
    from bayescl_lab.cli._tables import print_guesses
    from bayescl_lab.paper.ranking.reproduction import KIND, check_cell, reproduce_cell
    from bayescl_lab.report.ranking.figure import collect
    from bayescl_lab.runs.folder import RunFolder

    cells = request.cells()
    path = place.folder(f"ranking-{'-'.join(request.data)}")
    if place.resume:
        folder = RunFolder.open(path, KIND)
    else:
        for cell in cells:
            print_guesses(cell.plan.fixed.data.guessed_columns())
            check_cell(cell)
        folder = RunFolder.create(path, KIND, request.as_config())
    collected = folder.path if request.results is None else Path(request.results)
    for number, cell in enumerate(cells, start=1):
        words = f"{number} of {len(cells)}"
        with EpochBar(cell.most_epochs()) as bar:
            made = reproduce_cell(
                cell,
                folder.path / cell.name,
                baselines=folder.path / cell.baselines_name,
                workers=workers.workers or 1,
                progress=partial(_show, bar, words),
            )
        collect(collected, cell.name, made)
        print_cell(made)
    say(f"table: {collected / 'table.md'}")
    return 0


def _show(bar: EpochBar, words: str, run: str, _: int, done: float) -> None:
    """Show how many epochs of a cell are done."""
    bar.update(f"{words}: {run}", done)
