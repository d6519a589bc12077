"""Comparison of losses on interactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescl_lab.compare.comparison import Comparison, Results, check_losses
from bayescl_lab.compare.ranking.summary import ALIKE, SPREAD, baseline_summary, loss_summary
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import RankingLoss, ranking_losses, takes
from bayescl_lab.runs.parallel import Train
from bayescl_lab.runs.ranking.baselines import evaluate_baselines
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings

KIND = "compare ranking"
"""The kind of run: the command that makes it."""


@dataclass(frozen=True)
class RankingComparison(Comparison[RankingSettings, RankingLoss]):
    """Losses to compare on the same interactions; see :class:`.Comparison`.

    Raises:
        ValueError: also if nothing would be left to evaluate.
    """

    kind = KIND
    settings_type = RankingSettings
    loss_type = RankingLoss
    kept = ("metrics", "epochs", "best_epoch", "seconds_per_epoch", "loss")
    unsaid = ("devices", "num_nodes")  # one, always

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shared.processes.count > 1:
            raise ValueError(
                "devices must be 1 in a comparison, which trains runs side by side, "
                f"got {self.shared.processes.count}"
            )
        if self.shared.data.split == "none":
            raise ValueError("split must leave something to evaluate, got 'none'")

    @property
    def train(self) -> Train:
        """Trains one run in its folder."""
        return train_ranking

    def open_data(self, out: Path) -> RankingParts:
        """The interactions to evaluate on, which the first run recorded if it began already."""
        name, settings = next(iter(self.runs().items()))
        folder = RunFolder(out / "runs" / name, RankingRun.kind)
        return RankingRun(settings, **RankingRun.restore(folder)).parts

    def figures(self, results: Results, data: RankingParts) -> dict[str, Any]:
        """Losses and baselines in the form of a cell of the ranking table."""
        by_loss: dict[str, list[Mapping[str, Any]]] = {}
        for result in results.values():
            by_loss.setdefault(result["settings"]["loss"], []).append(result)
        baselines = evaluate_baselines(data)
        fitted = {name: one for name, one in baselines.items() if "metrics" in one}
        example = next(iter(results.values()))
        return {
            "data": self.shared.data.title,
            "encoder": self.shared.encoder,
            "seeds": self.seeds,
            "spread": SPREAD,
            **{key: example[key] for key in ALIKE},
            "losses": {loss: loss_summary(some) for loss, some in by_loss.items()},
            "baselines": {name: baseline_summary(one) for name, one in fitted.items()},
            "remarks": [one["left_out"] for one in baselines.values() if "left_out" in one],
        }


def settle_losses(
    names: Sequence[str],
    *,
    given: Mapping[str, float | None] | None = None,
    hyperparameters: Mapping[str, Mapping[str, float | None]] | None = None,
) -> tuple[RankingLoss, ...]:
    """Choose the hyper-parameters of every loss of a comparison.

    Args:
        names: the losses.
        given: values for every loss that takes them; None if not given.
        hyperparameters: by loss, values only for that loss, which override ``given``.

    Raises:
        ValueError: if a name is unknown, or no loss takes a given hyper-parameter.

    Example:
        >>> [one.hyperparameters for one in settle_losses(["bpr", "hard"], given={"tau_plus": 0.1})]
        [{}, {'tau_plus': 0.1}]
    """
    given, own = given or {}, hyperparameters or {}
    check_losses(names, ranking_losses(), given, own)
    settled = []
    for loss in names:
        values = {name: value for name, value in given.items() if takes(loss, name)}
        values |= own.get(loss, {})
        settled.append(
            RankingLoss(loss, {name: one for name, one in values.items() if one is not None})
        )
    return tuple(settled)
