"""Comparison of losses over seeds on the same interactions, with everything else equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bayescl.checks import check_choice, check_count
from bayescl_lab.compare.ranking.summary import ALIKE, SPREAD, baseline_summary, loss_summary
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import RankingLoss, ranking_losses, takes
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.ranking.baselines import baselines_beside
from bayescl_lab.runs.ranking.run import KIND as RUN_KIND
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.run import Result, Work, run_in_folder
from bayescl_lab.runs.settings import StoredSettings

KIND = "compare ranking"
"""The kind of run: the command that makes it."""

_KEPT = ("metrics", "epochs", "best_epoch", "seconds_per_epoch", "loss")
"""Fields kept of a run's result."""


@dataclass(frozen=True)
class RankingComparison(StoredSettings):
    """Losses to compare, and the settings that all runs share.

    Runs with the same seed start from the same weights and see the same batches and candidates, so
    losses can be compared seed by seed.

    Attributes:
        losses: the losses, each once.
        seeds: number of seeds.
        shared: settings of every run; its own loss is replaced, and its seed is the first one.

    Raises:
        ValueError: if a loss is named twice, there are no losses or seeds, nothing would be left to
            evaluate, or a loss cannot be trained with these settings.
    """

    losses: tuple[RankingLoss, ...]
    seeds: int
    shared: RankingSettings

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        names = [loss.loss for loss in self.losses]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"losses must name every loss once, got {', '.join(names) or 'none'}")
        if self.shared.processes.count > 1:
            raise ValueError(
                "devices must be 1 in a comparison, which trains runs side by side, "
                f"got {self.shared.processes.count}"
            )
        if self.shared.data.split == "none":
            raise ValueError("split must leave something to evaluate, got 'none'")
        self.runs()

    def runs(self) -> dict[str, RankingSettings]:
        """The settings of every run by its name, seed by seed."""
        return {
            f"{loss.loss}-seed{seed}": replace(self.shared, loss=loss, seed=seed)
            for seed in range(self.shared.seed, self.shared.seed + self.seeds)
            for loss in self.losses
        }

    def as_config(self) -> dict[str, Any]:
        """The comparison as plain values, every hyper-parameter resolved."""
        score = self.shared.score
        config = self.shared.as_config()
        devices = asdict(self.shared.processes)  # one, always
        for name in ("loss", *self.shared.loss.resolved(score=score), *devices):
            del config[name]
        return {
            "losses": ",".join(loss.loss for loss in self.losses),
            "seeds": self.seeds,
            "hyperparameters": {loss.loss: loss.resolved(score=score) for loss in self.losses},
            **config,
        }

    @classmethod
    def _taken_from(cls, values: dict[str, Any], /) -> dict[str, Any]:
        names, seeds = values.pop("losses").split(","), values.pop("seeds")
        losses = settle_losses(names, hyperparameters=values.pop("hyperparameters"))
        shared = RankingSettings.from_config({"loss": losses[0].loss, **values})
        values.clear()
        return {"losses": losses, "seeds": seeds, "shared": replace(shared, loss=losses[0])}


def compare_ranking(
    comparison: RankingComparison,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Train every loss with every seed, evaluate each by full ranking and summarise.

    Args:
        comparison: the comparison.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: whether to continue the comparison in ``out``: finished runs are kept, an
            interrupted one continues from its last checkpoint.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        The content of ``result.json``: settings, every run's figures, their means and spreads by
        loss, baselines, provenance. Losses and baselines have the form of a cell of the ranking
        table.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` cannot hold the
            comparison or holds another one.
    """
    check_count("workers", workers, 1)
    runs = comparison.runs()

    def begin() -> Work:
        name, settings = next(iter(runs.items()))
        begun = out / "runs" / name
        given = RankingRun.recalled(RunFolder.open(begun, RUN_KIND)) if begun.is_dir() else {}
        parts = RankingRun(settings, **given).parts  # finds bad input before there is a folder

        def carry_out(folder: RunFolder) -> Result:
            results = train_runs(
                runs, folder.path / "runs", train=train_ranking, workers=workers, progress=progress
            )
            return _result(comparison, results, baselines_beside(parts), workers)

        return carry_out

    return run_in_folder(out, KIND, comparison, begin, resume=resume, what="comparison")


def _result(
    comparison: RankingComparison,
    results: Mapping[str, Mapping[str, Any]],
    beside: Mapping[str, Mapping[str, Any]],
    workers: int,
) -> Result:
    """The content of ``result.json``."""
    by_loss: dict[str, list[Mapping[str, Any]]] = {}
    for result in results.values():
        by_loss.setdefault(result["settings"]["loss"], []).append(result)
    fitted = {name: one for name, one in beside.items() if "metrics" in one}
    example = next(iter(results.values()))
    return {
        "settings": comparison.as_config(),
        "data": comparison.shared.data.title,
        "encoder": comparison.shared.encoder,
        "seeds": comparison.seeds,
        "spread": SPREAD,
        **{key: example[key] for key in ALIKE},
        "losses": {loss: loss_summary(some) for loss, some in by_loss.items()},
        "baselines": {name: baseline_summary(one) for name, one in fitted.items()},
        "remarks": [one["left_out"] for one in beside.values() if "left_out" in one],
        "runs": {name: {key: results[name][key] for key in _KEPT} for name in results},
        "workers": workers,
        "threads_per_run": 1,
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
    if not names:
        raise ValueError("losses must name at least one loss, got none")
    for name in names:
        check_choice("loss", name, ranking_losses())
    unused = set(own) - set(names)
    if unused:
        raise ValueError(
            f"hyperparameters names losses that are not compared: {', '.join(sorted(unused))}"
        )
    for name, value in given.items():
        if value is not None and not any(takes(loss, name) for loss in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    settled = []
    for loss in names:
        values = {name: value for name, value in given.items() if takes(loss, name)}
        values |= own.get(loss, {})
        settled.append(
            RankingLoss(loss, {name: one for name, one in values.items() if one is not None})
        )
    return tuple(settled)
