"""Comparison of losses over seeds on the same data, with everything else equal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from bayescl.checks import check_choice, check_count
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES, LossSettings, RankingLoss, pop_loss, takes
from bayescl_lab.runs.parallel import Progress, Train, train_runs
from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.run import Result, RunStart
from bayescl_lab.runs.settings import StoredSettings

Results = Mapping[str, Mapping[str, Any]]
"""The ``result.json`` of every run by its name, seed by seed."""

Settings = TypeVar("Settings", ImageSettings, RankingSettings)
Loss = TypeVar("Loss", bound=LossSettings | RankingLoss)


@dataclass(frozen=True)
class Comparison(StoredSettings, ABC, Generic[Settings, Loss]):
    """Losses to compare, and the settings that all runs share.

    Runs with the same seed start from the same weights and see the same batches, views and
    candidates, so losses can be compared seed by seed.

    Attributes:
        losses: the losses, each once.
        seeds: number of seeds.
        shared: settings of every run; its own loss is replaced, and its seed is the first one.

    Raises:
        ValueError: if a loss is named twice, there are no losses or seeds, or a loss cannot be
            trained with these settings.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type[StoredSettings]]
    loss_type: ClassVar[type[LossSettings] | type[RankingLoss]]
    kept: ClassVar[tuple[str, ...]]
    """Fields kept of a run's result."""
    unsaid: ClassVar[tuple[str, ...]] = ()
    """Settings of runs that a comparison does not have."""

    losses: tuple[Loss, ...]
    seeds: int
    shared: Settings

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        names = [loss.loss for loss in self.losses]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"losses must name every loss once, got {', '.join(names) or 'none'}")
        self.runs()

    @property
    @abstractmethod
    def train(self) -> Train:
        """Trains one run in its folder."""

    @abstractmethod
    def open_data(self, out: Path) -> Any:
        """Find bad input before there is a folder; what is returned goes to :meth:`figures`."""

    @abstractmethod
    def figures(self, results: Results, data: Any) -> dict[str, Any]:
        """What ``result.json`` says of all runs together."""

    def with_loss(self, loss: Loss, seed: int) -> Settings:
        """The settings of one run."""
        changes: Any = {"loss": loss, "seed": seed}
        return replace(self.shared, **changes)

    def runs(self) -> dict[str, Settings]:
        """The settings of every run by its name, seed by seed."""
        return {
            f"{loss.loss}-seed{seed}": self.with_loss(loss, seed)
            for seed in range(self.shared.seed, self.shared.seed + self.seeds)
            for loss in self.losses
        }

    def as_config(self) -> dict[str, Any]:
        """The comparison as plain values, every hyper-parameter resolved."""
        own = {"loss", *LOSSES[self.shared.loss.loss].hyperparameters, *self.unsaid}
        shared = {name: it for name, it in self.shared.as_config().items() if name not in own}
        hyperparameters = {}
        for loss in self.losses:
            config = self.with_loss(loss, self.shared.seed).as_config()
            names = LOSSES[loss.loss].hyperparameters
            hyperparameters[loss.loss] = {name: config[name] for name in names}
        return {
            "losses": ",".join(loss.loss for loss in self.losses),
            "seeds": self.seeds,
            "hyperparameters": hyperparameters,
            **shared,
        }

    @classmethod
    def _taken_from(cls, values: dict[str, Any], /) -> dict[str, Any]:
        names, seeds = values.pop("losses").split(","), values.pop("seeds")
        by_loss = values.pop("hyperparameters")
        losses = tuple(cls.loss_type(*pop_loss({"loss": one, **by_loss[one]})) for one in names)
        first = with_alpha(losses)
        config = {"loss": first.loss, **first.hyperparameters, **values}
        values.clear()
        return {"losses": losses, "seeds": seeds, "shared": cls.settings_type.from_config(config)}


def compare(
    comparison: Comparison[Any, Any],
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Train every loss with every seed, evaluate each run and summarise.

    Args:
        comparison: the comparison.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: whether to continue the comparison in ``out``: finished runs are kept, an
            interrupted one continues from its last checkpoint.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        The content of ``result.json``: settings, every run's figures, their summary, provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` cannot hold
            the comparison or holds another one.
    """
    check_count("workers", workers, 1)
    start = RunStart(out, comparison.kind, comparison, resume=resume, what="comparison")
    if start.result is not None:
        return start.result
    data = comparison.open_data(out)
    with start.work() as folder:
        results = train_runs(
            comparison.runs(),
            folder.path / "runs",
            train=comparison.train,
            workers=workers,
            progress=progress,
        )
        figures = comparison.figures(results, data)
    return start.finish(
        {
            "settings": comparison.as_config(),
            **figures,
            "runs": {
                name: {key: result[key] for key in comparison.kept}
                for name, result in results.items()
            },
            "workers": workers,
            "threads_per_run": 1,
        }
    )


def with_alpha(losses: Sequence[Loss]) -> Loss:
    """The loss in a comparison's shared settings; a schedule of alpha needs one that has alpha."""
    return next((loss for loss in losses if takes(loss.loss, "alpha")), losses[0])


def check_losses(
    names: Sequence[str],
    available: Sequence[str],
    given: Mapping[str, float | None],
    own: Mapping[str, Mapping[str, float | None]],
) -> None:
    """Refuse losses and hyper-parameters that cannot be compared.

    Args:
        names: the losses.
        available: names of the losses that such runs have.
        given: values for every loss that takes them; None if not given.
        own: by loss, values only for that loss.

    Raises:
        ValueError: if a name is unknown, or no loss takes a given hyper-parameter.
    """
    if not names:
        raise ValueError("losses must name at least one loss, got none")
    for name in names:
        check_choice("loss", name, available)
    unused = set(own) - set(names)
    if unused:
        raise ValueError(
            f"hyperparameters names losses that are not compared: {', '.join(sorted(unused))}"
        )
    for name, value in given.items():
        if value is not None and not any(takes(loss, name) for loss in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
