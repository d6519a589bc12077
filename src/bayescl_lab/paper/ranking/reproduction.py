"""One cell of the ranking table: a data set and an encoder, every loss over several seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from bayescl_lab._files import write_atomically
from bayescl_lab.compare.ranking import tune_cell, tuned_baselines
from bayescl_lab.compare.ranking_plans import RankingCell
from bayescl_lab.compare.summary import baseline_summary, cell_summary
from bayescl_lab.compare.tuning import Trials
from bayescl_lab.ranking.ease import ease_precision
from bayescl_lab.runs.folder import as_json
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings

KIND = "reproduce ranking"
"""The kind of run: the command that makes it."""


def check_cell(cell: RankingCell) -> None:
    """Raise input errors before a folder exists.

    Raises:
        ValueError: if the data cannot be used.
    """
    RankingRun(cell.plan.tried("info_nce", {}, cell.plan.seeds[0]))


def reproduce_cell(
    cell: RankingCell,
    folder: Path,
    *,
    baselines: Path | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Choose settings on validation, retrain on training plus validation, evaluate on test.

    Every run has its own folder; call this again to continue an interrupted cell.

    Args:
        cell: the cell.
        folder: of the cell's runs and its ``cell.json``.
        baselines: folder of the baselines' runs, which cells of the same data can share; default:
            ``folder / "baselines"``.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        The content of ``cell.json``. EASE is left out, with a remark, if it does not fit into
        memory.

    Raises:
        ValueError: if the data cannot be used, or the folder holds runs with other settings.
    """
    origin = provenance()
    plan = cell.plan
    folder.mkdir(parents=True, exist_ok=True)
    trials = Trials(folder / "tuning", plan.seeds, train_ranking, workers, progress)
    tuning = tune_cell(plan, cell.losses, trials)
    finals: dict[str, RankingSettings] = {}
    for seed in range(cell.seeds):
        for loss in cell.losses:
            tuned = tuning["losses"][loss]
            kept = {"epochs": tuned["epochs"], "ranking": tuned["ranking"]["choice"]}
            finals[f"{loss}-seed{seed}"] = plan.final(loss, tuned["choice"], seed=seed, **kept)
    progress = trials.later()
    results = train_runs(
        finals, folder / "final", train=train_ranking, workers=workers, progress=progress
    )
    remarks = []
    try:
        ease_precision(next(iter(results.values()))["interactions"]["items"])
    except ValueError as error:
        remarks.append(f"EASE is left out: {error}")
        plan = replace(plan, regularizations=())
    baselines = baselines or folder / "baselines"
    chosen = tuned_baselines(plan, baselines / "tuning")
    fitted = train_runs(
        {name: settings for name, (settings, _) in chosen.items()},
        baselines / "final",
        train=fit_baseline,
    )
    record = {
        "data": plan.fixed.data.title,
        "encoder": plan.fixed.encoder,
        **cell_summary(results),
        "tuning": tuning,
        "baselines": {
            name: {**baseline_summary(fitted[name]), "tuning": tried}
            for name, (_, tried) in chosen.items()
        },
        "remarks": remarks,
        "workers": workers,
        "threads_per_run": 1,
        "commits_of_runs": sorted({str(result["commit"]) for result in results.values()}),
        **origin,
    }
    write_atomically(folder / "cell.json", as_json(record))
    return record
