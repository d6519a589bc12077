"""``bayescl reproduce``: the paper's tables on images, and its ranking table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from bayescl_lab.cli._console import print_guesses, say
from bayescl_lab.cli._options import FLAT, RUNTIME_OPTIONS, Options, Place, Workers
from bayescl_lab.paper.images.tables import TableRequest
from bayescl_lab.paper.ranking.plans import RankingRequest


def reproduce(
    table: Literal["all", "binary", "multiclass", "negatives", "hardness", "prior", "runtime"],
    *,
    request: Annotated[TableRequest, FLAT] = TableRequest(),
    options: Options,
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Reproduce the paper's tables.

    This command makes the tables on images, and "reproduce ranking" the ranking table. At the
    paper's size, tables also show the paper's values.

    Args:
        table: Table to reproduce: four losses on four data sets with two classes (binary) or all
            classes (multiclass); the number of negatives; the hardness beta; the class prior
            tau_plus; or the seconds per epoch with InfoNCE and the Bayesian loss (runtime).
        workers: Number of parallel runs, with one thread each. Default: one per core, or one on a
            GPU.
    """
    from bayescl_lab._files import write_atomically
    from bayescl_lab.cli.compare import perform
    from bayescl_lab.paper.images.tables import TABLES
    from bayescl_lab.report.results import results_markdown
    from bayescl_lab.runs.folder import check_vacant

    folder = place.folder(f"{table}-{request.size}")
    tables = [*TABLES.values()] if table == "all" else [TABLES[table]]
    plans = request.plans(tables)
    if not place.resume:
        check_vacant(folder)
    runs = sum(len(plan.runs()) for plan in plans)
    say(
        f"up to {runs} runs, {sum(plan.epochs for plan in plans):,} epochs in all",
        f"to continue after an interruption: bayescl reproduce {table} --resume --out {folder}",
        stderr=True,
    )
    results = perform(f"reproduce {table}", options, plans, folder, place, workers)
    write_atomically(folder / "table.md", results_markdown(results))
    say(f"figures: {folder / 'result.json'}", f"table: {folder / 'table.md'}")


def ranking(
    *,
    request: Annotated[RankingRequest, FLAT] = RankingRequest(),
    options: Options,
    workers: Workers = None,
    place: Annotated[Place, RUNTIME_OPTIONS] = Place(),
) -> None:
    """Reproduce the paper's ranking table: choose settings on validation, evaluate on test.

    For every data set and encoder, the same number of settings is tried for each loss on a
    validation part held out of training. Each loss is then trained on the whole training part with
    the chosen settings, once per seed, and evaluated on the test part. The table also has
    popularity, EASE and iALS, with settings chosen in the same way, and the paper's values.

    Args:
        workers: Number of parallel runs, with one thread each. Default: 1.
    """
    from bayescl_lab.cli.compare import perform
    from bayescl_lab.report.figures import collect

    plans = request.plans()
    folder = place.folder(f"ranking-{'-'.join(request.data)}")
    if not place.resume:
        for plan in plans:
            print_guesses(next(iter(plan.methods.values())).data)
    collected = folder if request.results is None else Path(request.results)
    results = perform("reproduce ranking", options, plans, folder, place, workers or 1)
    for plan, cell in zip(plans, results, strict=True):
        collect(collected, plan.name, cell)
    say(f"table: {collected / 'table.md'}")
