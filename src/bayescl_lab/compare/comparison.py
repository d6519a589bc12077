"""Comparison of losses over seeds on the same data, with everything else equal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic

from typing_extensions import Self

from bayescl.checks import check_choice, check_count
from bayescl_lab.compare.tuning import TUNING_SEED, Settings, Trials, Values, check_once, search
from bayescl_lab.runs.losses import (
    BASELINE,
    LOSSES,
    LossSettings,
    Room,
    choose_hyperparameters,
    losses_of,
    takes,
)
from bayescl_lab.runs.parallel import Progress, Train, train_runs
from bayescl_lab.runs.run import Result, RunStart
from bayescl_lab.runs.settings import StoredSettings, TrainedSettings

Results = Mapping[str, Mapping[str, Any]]
"""The ``result.json`` of every run by its name, seed by seed."""


@dataclass(frozen=True)
class Comparison(StoredSettings, ABC, Generic[Settings]):
    """Losses to compare, and the settings that all runs share.

    Runs with the same seed start from the same weights and see the same batches, views and
    candidates, so losses can be compared seed by seed. Settings that cannot be compared are a
    ``ValueError``.

    Attributes:
        losses: the losses, each once.
        seeds: number of seeds.
        shared: settings of every run; its own loss is replaced, and its seed is the first one.
        tune: number of settings tried for each loss before; see :func:`.search`; 0 for none.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type[TrainedSettings]]
    kept: ClassVar[tuple[str, ...]]
    """Fields of a run's result that the comparison's result repeats."""

    losses: tuple[LossSettings, ...]
    seeds: int
    shared: Settings
    tune: int = 0

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        check_once("losses", [loss.loss for loss in self.losses], "every loss")
        if self.shared.num_processes > 1:
            raise ValueError(
                "devices must be 1 in a comparison, which trains runs side by side, "
                f"got {self.shared.num_processes}"
            )
        self.runs()
        if self.tune and self.shared.evaluate_on != "test":
            raise ValueError("tune chooses on the validation part: evaluate_on must be test")
        for loss in self.losses if self.tune else ():
            self.tried(loss.loss, loss.hyperparameters, 0)

    @property
    @abstractmethod
    def train(self) -> Train:
        """Trains one run."""

    @abstractmethod
    def open_data(self, out: Path) -> Any:
        """Find bad input before there is a folder; what is returned goes to :meth:`summary`."""

    @abstractmethod
    def summary(self, results: Results, data: Any) -> dict[str, Any]:
        """What ``result.json`` says of all runs together."""

    def with_loss(self, loss: LossSettings, seed: int) -> Settings:
        """The settings of one run."""
        changes: Any = {"loss": loss, "seed": seed}
        return replace(self.shared, **changes)

    def tried(self, loss: str, values: Values, seed: int) -> Settings:
        """The settings of one run on the validation part."""
        given = {name: value for name, value in values.items() if value is not None}
        changed = replace(self.shared.loss, loss=loss, hyperparameters=given)
        changes: Any = {"evaluate_on": "validation"}
        return replace(self.with_loss(changed, seed), **changes)

    def runs(self) -> dict[str, Settings]:
        """The settings of every run by its name, seed by seed."""
        return {
            f"{loss.loss}-seed{seed}": self.with_loss(loss, seed)
            for seed in range(self.shared.seed, self.shared.seed + self.seeds)
            for loss in self.losses
        }

    @property
    def epochs(self) -> int:
        """Epochs of all runs together."""
        return self.shared.epochs * len(self.losses) * (self.seeds + self.tune)

    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """By loss, every hyper-parameter, including defaults."""
        values = {}
        for loss in self.losses:
            config = self.with_loss(loss, self.shared.seed).as_config()
            values[loss.loss] = {name: config[name] for name in LOSSES[loss.loss].hyperparameters}
        return values

    def as_config(self) -> dict[str, Any]:
        """The comparison as plain values, every hyper-parameter resolved."""
        of_loss = self.shared.loss.as_config()
        # All of them: what changes nothing for one loss may change another.
        every = StoredSettings.as_config(self.shared)
        shared = {name: it for name, it in every.items() if name not in of_loss}
        return {
            "losses": ",".join(loss.loss for loss in self.losses),
            "seeds": self.seeds,
            "tune": self.tune,
            "hyperparameters": self.hyperparameters(),
            **shared,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The comparison that :meth:`as_config` stored."""
        try:
            values = dict(config)
            names, by_loss = values.pop("losses").split(","), values.pop("hyperparameters")
            counts = {name: values.pop(name) for name in ("seeds", "tune")}
            take = cls.settings_type.parts["loss"]
            losses = tuple(take({"loss": name, **by_loss[name]}) for name in names)
            shared: Any = cls.settings_type.from_config({**losses[0].as_config(), **values})
            return cls(losses, shared=shared, **counts)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the stored settings are damaged: {error}") from None


def compare(
    comparison: Comparison[Any],
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Train every loss with every seed, evaluate each run and summarise: ``result.json``.

    Every run has its own run folder in ``out/runs``, and every run that chooses settings in
    ``out/tuning``. With ``resume`` finished runs are kept, and an interrupted one continues from
    its last checkpoint. ``workers`` runs train at a time, each with one thread, and ``progress`` is
    called after every epoch.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` cannot hold
            the comparison or holds another one.
    """
    check_count("workers", workers, 1)
    start = RunStart(out, comparison.kind, comparison, resume=resume)
    if start.result is not None:
        return start.result
    data = comparison.open_data(out)
    with start.work() as folder:
        seeds = [comparison.shared.seed + TUNING_SEED]
        trials = Trials(folder.path / "tuning", seeds, comparison.train, workers, progress)
        tuning: dict[str, Any] = {}
        if comparison.tune:
            first = comparison.hyperparameters()
            chosen = search(first, comparison.tune, comparison.tried, trials)
            tuning = {"tuning": chosen}
            best = {loss: entry["choice"] for loss, entry in chosen["losses"].items()}
            losses = tuple(comparison.tried(*choice, 0).loss for choice in best.items())
            comparison = replace(comparison, losses=losses)
        results = train_runs(
            comparison.runs(),
            folder.path / "runs",
            train=comparison.train,
            workers=workers,
            progress=trials.later(),
        )
        result = {
            "settings": comparison.as_config(),
            **tuning,
            **comparison.summary(results, data),
            "runs": {
                name: {key: run[key] for key in comparison.kept} for name, run in results.items()
            },
            "workers": workers,
            "threads_per_run": 1,
        }
    return start.finish(result)


def settle_losses(
    names: Sequence[str],
    room: Room,
    *,
    given: Mapping[str, float | None] | None = None,
    num_classes: int | None = None,
    hyperparameters: Mapping[str, Mapping[str, float | None]] | None = None,
    recorded: Callable[[str], Mapping[str, float]] = lambda _: {},
) -> tuple[LossSettings, ...]:
    """Choose the hyper-parameters of every loss of a comparison.

    Values ``given`` are for every loss that takes them, ``num_classes`` sets ``tau_plus``, and
    ``hyperparameters`` has by loss values that replace those ``recorded`` for it and these data. A
    loss without a temperature of its own gets that of InfoNCE.

    Raises:
        ValueError: if a name is unknown, or no loss takes a given hyper-parameter.

    Example:
        >>> losses = settle_losses(["bpr", "hard"], "ranking", given={"tau_plus": 0.1})
        >>> [loss.hyperparameters for loss in losses]
        [{}, {'tau_plus': 0.1}]
    """
    given, by_loss = given or {}, hyperparameters or {}
    if not names:
        raise ValueError("losses must name at least one loss, got none")
    for name in names:
        check_choice("loss", name, losses_of(room))
    if unused := set(by_loss) - set(names):
        raise ValueError(
            f"hyperparameters names losses that are not compared: {', '.join(sorted(unused))}"
        )
    for name, value in given.items():
        if value is not None and not any(takes(loss, name) for loss in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    # The default of recommenders depends on the score, and is the same for all of their losses.
    default = LossSettings(BASELINE).resolved() if room == "images" else {}
    common = {**default, **by_loss.get(BASELINE, recorded(BASELINE))}
    temperature = {name: value for name, value in common.items() if name == "temperature"}
    return tuple(
        choose_hyperparameters(
            loss,
            room,
            {name: value for name, value in given.items() if takes(loss, name)},
            num_classes=num_classes if takes(loss, "tau_plus") else None,
            start={**temperature, **by_loss.get(loss, recorded(loss))},
        )
        for loss in names
    )
