"""Comparison of losses on interactions, and the choice of settings for the ranking table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescl_lab.compare.comparison import Comparison, Results
from bayescl_lab.compare.ranking_plans import RankingPlan
from bayescl_lab.compare.summary import baseline_summary, cell_summary
from bayescl_lab.compare.tuning import Trials, Values, best, name_of, settings_of
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.parallel import Train
from bayescl_lab.runs.ranking.baselines import evaluate_baselines, fit_baseline
from bayescl_lab.runs.ranking.run import CRITERION, RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import (
    EASE_NAME,
    IALS_NAME,
    POPULARITY,
    BaselineSettings,
    RankingSettings,
)


@dataclass(frozen=True)
class RankingComparison(Comparison[RankingSettings]):
    """Losses to compare on the same interactions; see :class:`.Comparison`."""

    kind = "compare ranking"
    settings_type = RankingSettings
    kept = ("metrics", "epochs", "best_epoch", "seconds_per_epoch", "loss")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared.data.split == "none":
            raise ValueError("split must leave something to evaluate, got 'none'")

    @property
    def train(self) -> Train:
        """Trains one run."""
        return train_ranking

    def open_data(self, out: Path) -> RankingParts:
        """The interactions to evaluate on, which the first run recorded if it began already."""
        name, settings = next(iter(self.runs().items()))
        folder = RunFolder(out / "runs" / name, RankingRun.kind)
        return RankingRun(settings, **RankingRun.restore(folder)).parts

    def summary(self, results: Results, data: RankingParts) -> dict[str, Any]:
        """Losses and baselines in the form of a cell of the ranking table."""
        baselines = evaluate_baselines(data)
        return {
            "data": self.shared.data.title,
            "encoder": self.shared.encoder,
            **cell_summary(results),
            "baselines": {
                name: baseline_summary(it) for name, it in baselines.items() if "metrics" in it
            },
            "remarks": [it["left_out"] for it in baselines.values() if "left_out" in it],
        }


def tune_cell(plan: RankingPlan, losses: Sequence[str], trials: Trials) -> dict[str, Any]:
    """Try all settings of a plan for some losses, and choose on the validation part.

    Returns what :meth:`.Trials.record` does; each loss also has its number of ``epochs``, and the
    choice of its ``ranking`` with the scores of all that were tried, without training again.
    """
    tried = {loss: settings_of(plan.loss_grids[loss]) for loss in losses}
    chosen = trials.choose(tried, plan.tried)
    for entry in chosen.values():
        run = f"{best(entry['scores'])}-seed{plan.seeds[0]}"
        entry["epochs"] = trials.results[run]["best_epoch"]
        entry["ranking"] = _ranking(trials.folder / run, plan.rankings)
    return trials.record(chosen)


def tuned_baselines(
    plan: RankingPlan, folder: Path
) -> dict[str, tuple[BaselineSettings, dict[str, Any]]]:
    """By name, the settings of every baseline of a plan for test, and how they were chosen.

    That is the ``choice`` with the ``scores`` of all that was tried; nothing is tried for
    popularity. Finished runs in the folder are kept.
    """
    tried: dict[Any, Sequence[Values]] = {
        EASE_NAME: [{"regularization": value} for value in plan.regularizations],
        IALS_NAME: plan.ials_settings,
    }

    def make(name: Any, values: Values, evaluate_on: Any) -> BaselineSettings:
        options: dict[str, Any] = {"evaluate_on": evaluate_on, "dim": plan.fixed.dim, **values}
        return BaselineSettings(name, plan.fixed.data, **options)

    chosen = Trials(folder, [0], train=fit_baseline).choose(
        {name: values for name, values in tried.items() if values},
        lambda name, values, _: make(name, values, "validation"),
    )
    return {
        name: (make(name, entry.get("choice", {}), "test"), entry)
        for name, entry in {POPULARITY: {}, **chosen}.items()
    }


def _ranking(folder: Path, tried: Sequence[Values]) -> dict[str, Any]:
    """The settings with which a finished run ranks best, and the scores of all."""
    if len(tried) == 1:
        return {"choice": tried[0]}
    _, run, _ = RankingRun.reopen(folder)
    scores = {}
    for values in tried:
        run.model.propagate = values["propagate"]
        run.model.item_norm_exponent = values["item_norm_exponent"]
        scores[name_of(values)] = run.evaluate()["metrics"][CRITERION]
    by_name = {name_of(values): values for values in tried}
    return {"choice": by_name[max(scores, key=scores.__getitem__)], "scores": scores}
