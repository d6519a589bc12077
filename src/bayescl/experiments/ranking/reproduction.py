"""One cell of the ranking table: a data set and an encoder, every loss over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bayescl._checks import check_count
from bayescl._files import write_atomically
from bayescl.experiments.ranking.cells import RankingCell
from bayescl.experiments.ranking.tuning import tune, tuned_baselines
from bayescl.runs.folder import as_json
from bayescl.runs.parallel import Progress, train_runs
from bayescl.runs.provenance import provenance
from bayescl.runs.ranking.baselines import fit_baseline
from bayescl.runs.ranking.run import RankingRun, train_ranking
from bayescl.runs.ranking.settings import RankingSettings
from bayescl.runs.statistics import mean_and_spread

KIND = "reproduce ranking"
"""The kind of run: the command that makes it."""


def check_cell(cell: RankingCell) -> None:
    """Find bad input before there is a folder.

    Raises:
        ValueError: if the data cannot be used.
    """
    RankingRun(cell.plan.tried("info_nce", cell.plan.shared_loss, {}))


def reproduce_cell(
    cell: RankingCell,
    folder: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Choose settings on validation, train once more on training plus validation, judge on test.

    Every run has its own folder; finished runs are kept and an interrupted one continues from its
    last checkpoint, so a cell that was broken is gone on with by calling this again.

    Args:
        cell: what to compare.
        folder: of the cell's runs and its ``cell.json``.
        workers: processes that train at a time, each with one thread.
        progress: told of every finished epoch.

    Returns:
        What ``cell.json`` holds: every setting tried, the choice, figures of every seed with mean
        and spread, baselines, cost, and provenance.

    Raises:
        ValueError: if the data cannot be used, or the folder holds runs with other settings.
    """
    check_count("workers", workers, 1)
    origin = provenance()
    plan = cell.plan
    folder.mkdir(parents=True, exist_ok=True)
    tuning = tune(plan, cell.losses, folder / "tuning", workers=workers, progress=progress)
    shared = tuning["shared"]["choice"]
    finals: dict[str, RankingSettings] = {
        f"{loss}-seed{seed}": plan.final(
            loss,
            tuning["losses"][loss]["choice"],
            shared,
            epochs=tuning["losses"][loss]["epochs"],
            seed=seed,
            item_norm_exponent=tuning["losses"][loss]["item_norm_exponent"],
        )
        for seed in range(cell.seeds)
        for loss in cell.losses
    }
    results = train_runs(
        finals, folder / "final", train=train_ranking, workers=workers, progress=progress
    )
    baselines = tuned_baselines(plan.fixed.data, plan.regularizations, folder / "tuning")
    fitted = train_runs(
        {name: settings for name, (settings, _) in baselines.items()},
        folder / "baselines",
        train=fit_baseline,
    )
    example = next(iter(results.values()))
    record = {
        "data": plan.fixed.data.title,
        "encoder": plan.fixed.encoder,
        "seeds": cell.seeds,
        "spread": "standard deviation over seeds",
        "protocol": example["protocol"],
        "evaluated_on": example["evaluated_on"],
        **{key: example[key] for key in ("interactions", "density", "report")},
        **{key: example[key] for key in ("users", "users_left_out")},
        "tuning": tuning,
        "losses": {
            loss: _summary([results[f"{loss}-seed{seed}"] for seed in range(cell.seeds)])
            for loss in cell.losses
        },
        "baselines": {
            name: {**_baseline(fitted[name]), "tuning": tried}
            for name, (_, tried) in baselines.items()
        },
        "workers": workers,
        "threads_per_run": 1,
        "commits_of_runs": sorted({str(result["commit"]) for result in results.values()}),
        **origin,
    }
    write_atomically(folder / "cell.json", as_json(record))
    return record


def _summary(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of one loss over its seeds."""
    settings = {key: value for key, value in results[0]["settings"].items() if key != "seed"}
    return {
        "metrics": {
            metric: mean_and_spread([result["metrics"][metric] for result in results])
            for metric in results[0]["metrics"]
        },
        "epochs": results[0]["epochs"],
        "seconds_per_epoch": mean_and_spread([result["seconds_per_epoch"] for result in results]),
        "evaluation_seconds": mean_and_spread([result["evaluation_seconds"] for result in results]),
        "settings": settings,
    }


def _baseline(result: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a baseline in the same form; there is nothing random about it."""
    return {
        "metrics": {name: mean_and_spread([value]) for name, value in result["metrics"].items()},
        "fit_seconds": result["fit_seconds"],
        "settings": result["settings"],
    }
