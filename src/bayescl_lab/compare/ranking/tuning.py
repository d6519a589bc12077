"""Choose the settings of one data set and encoder on the validation part, for every loss alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayescl_lab.compare.grids import Scores, Trial, Values, best, choose_settings, name_of
from bayescl_lab.compare.ranking.plans import RankingPlan
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import (
    EASE_NAME,
    POPULARITY,
    AnyBaseline,
    BaselineSettings,
    IALSSettings,
)
from bayescl_lab.runs.ranking.watch import CRITERION


def tune(
    plan: RankingPlan,
    losses: Sequence[str],
    folder: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try all settings of a plan and choose on the validation part.

    Args:
        plan: the plan.
        losses: the losses to choose settings for.
        folder: of the run folders; finished runs in it are kept.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        ``shared`` and ``losses``, each with its ``choice``, its number of ``epochs``, its
        ``item_norm_exponent`` and the ``scores`` of all that was tried; ``seed`` and ``seconds``
        of training in all.
    """
    every: list[dict[str, Any]] = []

    def score(trials: Mapping[str, Trial]) -> Scores:
        """Train every setting once."""
        settings = {name: plan.tried(*trial) for name, trial in trials.items()}
        results = train_runs(
            settings, folder, train=train_ranking, workers=workers, progress=progress
        )
        every.extend(results.values())
        return {name: _score(result) for name, result in results.items()}

    grids = {loss: plan.loss_grids[loss] for loss in losses}
    shared, entries = choose_settings(plan.shared_grid, grids, score, shared_loss=plan.shared_loss)
    for entry in entries.values():
        chosen = best(entry["scores"])
        entry["epochs"] = entry["scores"][chosen]["epoch"]
        entry |= _item_norm_exponent(folder / chosen, plan.item_norm_exponents)
    return {
        "criterion": f"{CRITERION} on the validation part",
        "seed": plan.seed,
        "shared": shared,
        "losses": entries,
        "seconds": sum(result["seconds_per_epoch"] * result["epochs"] for result in every),
        "commits": sorted({str(result["commit"]) for result in every}),
    }


def tuned_baselines(
    plan: RankingPlan, folder: Path
) -> dict[str, tuple[AnyBaseline, dict[str, Any]]]:
    """Every baseline of a plan, ready for test, with the choice of its settings.

    Args:
        plan: the plan.
        folder: of the run folders; finished runs in it are kept.

    Returns:
        By name, the settings for test, and the ``choice`` with the ``scores`` of all that was
        tried; nothing is tried for popularity.
    """
    data = plan.fixed.data
    ease = {f"ease-{value:g}": {"regularization": value} for value in plan.regularizations}
    ials = {f"ials-{name_of(values)}": values for values in plan.ials_settings}
    families: list[tuple[AnyBaseline, Mapping[str, Values]]] = [
        (BaselineSettings(EASE_NAME, data), ease),
        (IALSSettings(data, dim=plan.fixed.dim), ials),
    ]
    baselines: dict[str, tuple[AnyBaseline, dict[str, Any]]] = {
        POPULARITY: (BaselineSettings(POPULARITY, data), {})
    }
    for settings, tried in families:
        if tried:
            tuning = _tune_baseline(settings, tried, folder)
            baselines[settings.encoder] = (replace(settings, **tuning["choice"]), tuning)
    return baselines


def _tune_baseline(
    settings: AnyBaseline, tried: Mapping[str, Values], folder: Path
) -> dict[str, Any]:
    """Choose the settings of one baseline in the same way as those of a loss."""
    runs = {
        name: replace(settings, evaluate_on="validation", **values)
        for name, values in tried.items()
    }
    results = train_runs(runs, folder, train=fit_baseline)
    scores = {
        name: {"values": tried[name], "score": _of(result)} for name, result in results.items()
    }
    return {"choice": scores[best(scores)]["values"], "scores": scores}


def _item_norm_exponent(folder: Path, exponents: Sequence[float]) -> dict[str, Any]:
    """The exponent with which a finished run ranks best, and the scores of all."""
    if len(exponents) == 1:
        return {"item_norm_exponent": exponents[0]}
    _, run, _ = RankingRun.reopen(folder)
    scores = {}
    for exponent in exponents:
        run.model.item_norm_exponent = exponent
        scores[exponent] = run.evaluate()["metrics"][CRITERION]
    return {
        "item_norm_exponent": max(scores, key=scores.__getitem__),
        "item_norm_exponent_scores": {f"{key:g}": score for key, score in scores.items()},
    }


def _score(result: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a tried run."""
    return {
        "score": _of(result),
        "recall@20": result["metrics"]["recall@20"],
        "epoch": result["best_epoch"],
        "epochs": result["epochs"],
        "seconds_per_epoch": result["seconds_per_epoch"],
        "seconds": result["seconds_per_epoch"] * result["epochs"],
    }


def _of(result: Mapping[str, Any]) -> float:
    """The criterion of a run."""
    return float(result["metrics"][CRITERION])
