"""Comparisons of losses on interactions, with baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from typing_extensions import Self

from bayescl_lab._types import Values
from bayescl_lab.compare.comparison import compared
from bayescl_lab.compare.plan import Plan
from bayescl_lab.ranking.ease import ease_left_out
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.parallel import Train
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.ranking_run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.ranking_settings import (
    BASELINES,
    EASE_NAME,
    BaselineSettings,
    RankingSettings,
)


@dataclass(frozen=True)
class RankingPlan(Plan[RankingSettings]):
    """Plan on interactions."""

    train: Train = train_ranking

    def prepared(self, out: Path) -> Self:
        """Return the plan, without EASE if there are too many items.

        The interactions are read from the record of the first run, if it exists.
        """
        name, settings = next(iter(self.runs().items()))
        recorded = RankingRun.restore(RunFolder(out / "runs" / name, RankingRun.kind))
        items = RankingRun(settings, **recorded).parts.train.num_items
        reason = ease_left_out(items)
        if reason is None or self.baselines is None or EASE_NAME not in self.baselines.methods:
            return self
        methods = {name: it for name, it in self.baselines.methods.items() if name != EASE_NAME}
        baselines = replace(self.baselines, methods=methods)
        return replace(self, baselines=baselines, remarks=(*self.remarks, reason))


def compare_ranking(
    methods: Mapping[str, Values], shared: RankingSettings, *, seeds: int, tune: int = 0
) -> RankingPlan:
    """Return the plan of a comparison on the same interactions; see :func:`.compared`."""
    data, part = shared.data, shared.evaluate_on
    if data.split == "none":
        raise ValueError("split must leave something to evaluate, got 'none'")
    baselines: dict[str, BaselineSettings] = {
        name: BaselineSettings(name, data, evaluate_on=part) for name in BASELINES
    }
    given = compared(methods, shared, seeds=seeds, tune=tune)
    return RankingPlan(**given, baselines=Plan(baselines, [0], fit_baseline))
