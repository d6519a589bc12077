"""One cell of the ranking table: a data set and an encoder, every loss over several seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescl._checks import check_choice, check_count
from bayescl._files import write_atomically
from bayescl.experiments.grids import settings_of
from bayescl.experiments.ranking.plans import RankingPlan, plan_for, smoke
from bayescl.experiments.ranking.tuning import tune, tuned_baselines
from bayescl.recsys.encoders import ENCODERS
from bayescl.runs.folder import as_json
from bayescl.runs.losses import ranking_losses
from bayescl.runs.parallel import Progress, train_runs
from bayescl.runs.provenance import provenance
from bayescl.runs.ranking.baselines import fit_baseline
from bayescl.runs.ranking.data import RankingData, Split
from bayescl.runs.ranking.run import RankingRun, train_ranking
from bayescl.runs.ranking.settings import RankingSettings
from bayescl.runs.statistics import mean_and_spread

KIND = "reproduce ranking"
"""The kind of run: the command that makes it."""

SIZES = ("full", "smoke")
"""How much is tried: all of a plan, or one setting for two epochs."""


@dataclass(frozen=True)
class RankingCell:
    """What one cell of the table compares.

    Attributes:
        plan: data set, encoder, and what is tried before.
        losses: the losses, each once.
        seeds: number of seeds of the runs that are judged on test.

    Raises:
        ValueError: if a loss is unknown or named twice, or there are no losses or seeds.
    """

    plan: RankingPlan
    losses: tuple[str, ...]
    seeds: int

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        for loss in self.losses:
            check_choice("loss", loss, ranking_losses())
            if loss not in self.plan.loss_grids:
                known = ", ".join(self.plan.loss_grids)
                raise ValueError(f"the plan of {self.name} has settings for {known}, not {loss}")
        if not self.losses or len(set(self.losses)) < len(self.losses):
            raise ValueError(
                f"losses must name every loss once, got {', '.join(self.losses) or 'none'}"
            )

    @property
    def name(self) -> str:
        """The cell as a part of a file name."""
        data = self.plan.fixed.data
        words = [Path(data.data).name, *([data.split] if data.split else [])]
        return "-".join([*words, self.plan.fixed.encoder])

    def check(self) -> None:
        """Find bad input before there is a folder.

        Raises:
            ValueError: if the data cannot be used.
        """
        RankingRun(self.plan.tried("info_nce", self.plan.shared_loss, {}))

    def most_epochs(self) -> int:
        """Epochs of all runs together, if none stopped early."""
        grids = [settings_of(self.plan.loss_grids[loss]) for loss in self.losses]
        shared = settings_of(self.plan.shared_grid)
        runs = sum(map(len, grids)) + len(shared) + self.seeds * len(self.losses)
        return runs * self.plan.fixed.epochs


def planned_cells(
    data: Sequence[str],
    encoders: Sequence[str],
    losses: Sequence[str],
    *,
    split: Split | None,
    seeds: int,
    size: str,
) -> list[RankingCell]:
    """The cells of a table, data set by data set.

    Args:
        data: names or paths of data sets.
        encoders: "mf", "lightgcn" or both.
        losses: for every cell; those of each cell's plan if there are none.
        split: how the test part comes about.
        seeds: number of seeds.
        size: "full" or "smoke".

    Raises:
        ValueError: if something is unknown or missing, or a plan has no settings for a loss.
    """
    check_choice("size", size, SIZES)
    for name, values in (("data", data), ("encoders", encoders)):
        if not values or len(set(values)) < len(values):
            raise ValueError(f"{name} must name each once, got {', '.join(values) or 'none'}")
    for encoder in encoders:
        check_choice("encoder", encoder, tuple(ENCODERS))
    cells = []
    for one in data:
        for encoder in encoders:
            plan = plan_for(RankingData(one, split), encoder)
            plan = smoke(plan) if size == "smoke" else plan
            cells.append(RankingCell(plan, tuple(losses or plan.loss_grids), seeds))
    return cells


def reproduce_cell(
    cell: RankingCell,
    folder: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Choose settings on validation, train once more on training plus validation, judge on test.

    Every run has its own folder; finished runs are kept and a broken one goes on from its last
    checkpoint, so a cell that was broken is gone on with by calling this again.

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
