"""The commands of ``python -m reproduction``."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Literal

from bayescl_lab._fields import Count, CountOr0, Words, at_least, check_choice
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab._types import Config
from bayescl_lab.cli._console import print_guesses, print_result, say
from bayescl_lab.cli._options import FLAT, RUNTIME_OPTIONS, Called
from bayescl_lab.cli.compare import PlanOptions, perform
from bayescl_lab.report.results import page_measures
from bayescl_lab.runs.folder import check_writable, write_json
from bayescl_lab.runs.provenance import provenance
from reproduction.estimation import BASE, digits_study, estimation_figure, process_study
from reproduction.experiments import EXPERIMENTS
from reproduction.image_tables import TABLES, TableRequest
from reproduction.lemmas import lemma_3_figure, measured
from reproduction.process import Settings
from reproduction.ranking_table import RankingRequest, beside, cell_title, collect

PROGRAM = "python -m reproduction"


def tables(
    table: Literal[
        "all", "binary", "multiclass", "negatives", "hardness", "prior", "runtime"
    ] = "all",
    *,
    request: Annotated[TableRequest, FLAT] = TableRequest(),
    run_options: Annotated[PlanOptions, RUNTIME_OPTIONS] = PlanOptions(),
    called: Called,
) -> Config | None:
    """Reproduce the paper's tables.

    This command makes the tables on images, and "tables ranking" the ranking table. At the paper's
    size, tables also show the paper's values.

    Args:
        table: Table to reproduce: four losses on four data sets with two classes (binary) or all
            classes (multiclass); the number of negatives; the hardness beta; the class prior
            tau_plus; or the seconds per epoch with InfoNCE and the Bayesian loss (runtime).
    """
    if called.print_config:
        return called.options
    folder = run_options.folder(f"{table}-{request.size}")
    plans = request.plans([*TABLES.values()] if table == "all" else [TABLES[table]])
    runs = sum(len(plan.runs()) for plan in plans)
    say(
        f"up to {runs} runs, {sum(plan.epochs for plan in plans):,} epochs in all",
        f"to continue after an interruption: {PROGRAM} tables --resume --out {folder}",
        stderr=True,
    )
    results = perform("tables", called.options, plans, folder, run_options, PROGRAM)
    for plan, result in zip(plans, results, strict=True):
        print_result(plan.table.title, result, plan.beside(result))
    sections = [plan.markdown(result) for plan, result in zip(plans, results, strict=True)]
    write_atomically(folder / "table.md", "\n".join(sections))
    say(f"numbers: {folder / 'result.json'}", f"table: {folder / 'table.md'}")
    return None


def ranking(
    *,
    request: Annotated[RankingRequest, FLAT] = RankingRequest(),
    run_options: Annotated[PlanOptions, RUNTIME_OPTIONS] = PlanOptions(),
    called: Called,
) -> Config | None:
    """Reproduce the paper's ranking table: choose settings on validation, evaluate on test.

    For every data set and encoder, the same number of settings is tried for each loss on a
    validation split held out of training. Each loss is then trained on the whole training split
    with the chosen settings, once per seed, and evaluated on the test split. The table also has
    popularity, EASE and iALS, with settings chosen in the same way, and the paper's values.
    """
    if called.print_config:
        return called.options
    plans = request.plans()
    folder = run_options.folder(f"ranking-{'-'.join(request.data)}")
    if not run_options.resume:
        for plan in plans:
            print_guesses(next(iter(plan.methods.values())).data)
    collected = folder if request.results is None else Path(request.results)
    results = perform("tables ranking", called.options, plans, folder, run_options, PROGRAM)
    for plan, result in zip(plans, results, strict=True):
        result = replace(result, data=plan.title or result.data)
        print_result(cell_title(result), result, beside(result, page_measures(result)))
        collect(collected, plan.name, result)
    say(f"table: {collected / 'table.md'}")
    return None


def simulate(
    names: Words = (),
    *,
    out: Path = Path("runs/simulation"),
    seed: CountOr0 = 0,
    settings: Annotated[Settings, FLAT] = Settings(),
) -> None:
    """Run the numerical experiments and write a data file and a figure for each.

    Labeled scores are generated, and estimators of the mean over true negatives are compared with
    the labels. The defaults are the paper's. If an experiment varies a parameter, its option is
    ignored.

    Args:
        names: Experiments to run: densities, weights, auc-as-alpha, mse, means and hard. Default:
            all.
        out: Folder for data files and figures. Existing files are replaced.
        seed: Seed of all random numbers. The same seed gives the same files.
    """
    for name in names:
        check_choice("experiment", name, tuple(EXPERIMENTS))
    experiments = [EXPERIMENTS[name] for name in dict.fromkeys(names or EXPERIMENTS)]
    check_writable(out)
    out.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        experiment.write(experiment.run(settings, seed), out)
        say(f"{experiment.name}: {experiment.summary}")
    write_json(out / "simulation.json", {**provenance(), "seed": seed, **asdict(settings)})
    say(f"files: {out}")


def lemmas(
    *,
    out: Path = Path("runs/lemmas"),
    settings: Annotated[Settings, FLAT] = Settings(),
) -> None:
    """Measure the lemmas, and compare the estimators at many points.

    The defaults are the paper's. If a measurement varies a parameter, its option is ignored.

    Args:
        out: Folder for lemmas.json and lemma-3.png. Existing files are replaced.
    """
    check_writable(out)
    records = measured(settings)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "lemmas.json", {**provenance(), **records})
    save_figure(lemma_3_figure(records["lemma_3"], settings), out / "lemma-3.png")
    say(f"files: {out}")


def estimation(
    *,
    out: Path = Path("runs/estimation"),
    draws: Annotated[int, at_least(2)] = 20,
    anchors: Count = 300,
    seeds: Annotated[int, at_least(2)] = 3,
    epochs: Count = 10,
) -> None:
    """Measure the errors of estimates of alpha, on the generative process and on digits.

    The test split of digits is not used.

    Args:
        out: Folder for tables and figure. Existing files are replaced.
        draws: Number of draws of the process at each alpha and tau_plus.
        anchors: Number of anchors per draw.
        seeds: Number of seeds on digits.
        epochs: Number of epochs on digits.
    """
    check_writable(out)
    base = replace(BASE, epochs=epochs)
    process = process_study(draws=draws, anchors=anchors)
    digits = digits_study(range(seeds), base)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "process.csv", process.write_csv())
    write_atomically(out / "digits.csv", digits.write_csv())
    save_figure(estimation_figure(process, digits), out / "estimation.png")
    write_json(out / "study.json", {**provenance(), "settings": base.as_config()})
    say(f"files: {out}")
