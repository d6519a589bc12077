"""Comparisons of losses on interactions, with baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import Self

from bayescl_lab.compare.comparison import Comparison
from bayescl_lab.compare.plan import Plan
from bayescl_lab.compare.result import Result
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.baselines import ease_left_out, fit_baseline
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import (
    BASELINES,
    EASE_NAME,
    BaselineSettings,
    RankingSettings,
)


@dataclass(frozen=True)
class BaselinePlan(Plan[BaselineSettings]):
    """Plan of baselines, which are fitted without gradients."""

    train = staticmethod(fit_baseline)


@dataclass(frozen=True)
class RankingPlan(Plan[RankingSettings]):
    """Plan on interactions."""

    train = staticmethod(train_ranking)

    def prepared(self, out: Path) -> Self:
        """Return the plan, without EASE if its matrix does not fit into memory.

        The interactions are read from the record of the first run, if it exists.
        """
        name, settings = next(iter(self.runs().items()))
        recorded = RankingRun.restore(RunFolder(out / "runs" / name, RankingRun.kind))
        items = RankingRun(settings, **recorded).parts.train.num_items
        reason = self.ease_left_out(items)
        if reason is None or self.baselines is None or EASE_NAME not in self.baselines.methods:
            return self
        result = replace(self.result, remarks=(*self.result.remarks, reason))
        return replace(self, baselines=self.baselines.without(EASE_NAME), result=result)

    def ease_left_out(self, items: int) -> str | None:
        """Return the reason to skip EASE, or ``None``."""
        return ease_left_out(items)

    def finished(self, result: Result, run: Mapping[str, Any]) -> Result:
        """Return the result with the sizes of the data."""
        judged = {"judged": run["users"], "users_left_out": run["users_left_out"]}
        return replace(result, sizes={**run["interactions"], **judged})


@dataclass(frozen=True)
class RankingComparison(Comparison[RankingSettings]):
    """Losses to compare on the same interactions; see :class:`.Comparison`."""

    kind = "compare ranking"
    settings_type = RankingSettings

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared.data.split == "none":
            raise ValueError("split must leave something to evaluate, got 'none'")

    def plan(self) -> RankingPlan:
        """Return the runs to make."""
        data, part = self.shared.data, self.shared.evaluate_on
        names: Any = BASELINES
        baselines = {name: BaselineSettings(name, data, evaluate_on=part) for name in names}
        return RankingPlan(
            **self.common(),
            baselines=BaselinePlan(baselines, [0]),
            result=Result(data.title, part, {}, 0, encoder=self.shared.encoder),
        )
