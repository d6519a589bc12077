"""Comparisons of methods over seeds on the same data, with all other settings equal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from bayescl.checks import check_choice, check_count
from bayescl_lab.compare.plan import TUNING_SEED, Plan, with_values
from bayescl_lab.compare.tuning import Values, check_once, stages
from bayescl_lab.runs.losses import (
    BASELINE,
    LOSSES,
    SHARE,
    SHARES,
    TEACHER,
    LossSettings,
    Room,
    choose_hyperparameters,
    methods_of,
    takes,
)
from bayescl_lab.runs.settings import StoredSettings, TrainedSettings

if TYPE_CHECKING:
    from bayescl_lab.runs.images.settings import ImageSettings
    from bayescl_lab.runs.ranking.settings import RankingSettings

Settings = TypeVar("Settings", "ImageSettings", "RankingSettings")


@dataclass(frozen=True)
class Comparison(StoredSettings, ABC, Generic[Settings]):
    """Methods to compare, and the settings that all runs share.

    Runs with the same seed have the same initial weights, batches, views and candidates, so losses
    can be compared seed by seed.

    Attributes:
        methods: Hyper-parameters and other settings of each method, by its name. The name is the
            name of a loss, with the suffix :data:`.TEACHER` for a teacher.
        seeds: Number of seeds.
        shared: Settings of all runs. Its loss is replaced, and its seed is the first one.
        tune: Number of settings tried for each method before; see :func:`.stages`. 0 for none.

    Raises:
        ValueError: if the settings cannot be compared.
    """

    kind: ClassVar[str]
    settings_type: ClassVar[type[TrainedSettings]]

    methods: Mapping[str, Values]
    seeds: int
    shared: Settings
    tune: int = 0

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        if self.shared.num_processes > 1:
            raise ValueError(
                "devices must be 1 in a comparison, which trains runs side by side, "
                f"got {self.shared.num_processes}"
            )
        if self.tune and self.shared.evaluate_on != "test":
            raise ValueError("tune chooses on the validation part: evaluate_on must be test")
        self.plan()

    @abstractmethod
    def plan(self) -> Plan[Settings]:
        """Return the plan of all runs."""

    def settings(self, name: str) -> Settings:
        """Return the settings of a method's runs."""
        loss: Any = {
            "loss": replace(self.shared.loss, loss=name.removesuffix(TEACHER), hyperparameters={})
        }
        return with_values(replace(self.shared, **loss), self.methods[name])

    def common(self) -> dict[str, Any]:
        """Return the arguments of plans for both kinds of comparison."""
        first = self.shared.seed
        return {
            "methods": {name: self.settings(name) for name in self.methods},
            "seeds": range(first, first + self.seeds),
            "stages": stages(self.hyperparameters(), self.tune) if self.tune else (),
            "tuning_seeds": (first + TUNING_SEED,),
        }

    def hyperparameters(self) -> dict[str, dict[str, Any]]:
        """Return all values of each method, including default hyper-parameters."""

        def resolved(name: str, values: Values) -> dict[str, Any]:
            config = self.settings(name).as_config()
            every = {**LOSSES[name.removesuffix(TEACHER)].hyperparameters, **values}
            return {key: config[key] for key in every if key in config}

        return {name: resolved(name, values) for name, values in self.methods.items()}

    def as_config(self) -> dict[str, Any]:
        """Return the comparison as plain values, with all hyper-parameters resolved."""
        of_loss = self.shared.loss.as_config()
        # A setting without effect on one loss may affect another.
        every = StoredSettings.as_config(self.shared)
        shared = {name: it for name, it in every.items() if name not in of_loss}
        return {
            "losses": ",".join(self.methods),
            "seeds": self.seeds,
            "tune": self.tune,
            "hyperparameters": self.hyperparameters(),
            **shared,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Create a comparison from the result of :meth:`as_config`."""
        try:
            values = dict(config)
            names, by_method = values.pop("losses").split(","), values.pop("hyperparameters")
            counts = {name: values.pop(name) for name in ("seeds", "tune")}
            shared: Any = cls.settings_type.from_config(
                {"loss": names[0].removesuffix(TEACHER), **values}
            )
            return cls({name: by_method[name] for name in names}, shared=shared, **counts)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the stored settings are damaged: {error}") from None


def settle_methods(
    names: Sequence[str],
    room: Room,
    *,
    given: Mapping[str, float | None] | None = None,
    num_classes: int | None = None,
    hyperparameters: Mapping[str, Mapping[str, float | None]] | None = None,
    recorded: Callable[[str], Mapping[str, float]] = lambda _: {},
) -> dict[str, dict[str, float]]:
    """Choose the values of every method of a comparison.

    Values in ``given`` apply to all methods that have them. ``num_classes`` sets ``tau_plus``.
    ``hyperparameters`` has values of single methods, which replace the ``recorded`` values for the
    data. The default temperature is the temperature of InfoNCE. For images, ``positive_share`` is 1
    without a teacher.

    Raises:
        ValueError: if a name is unknown or occurs twice, or no method takes a given value.

    Example:
        >>> settle_methods(["bpr", "hard"], "ranking", given={"tau_plus": 0.1})
        {'bpr': {}, 'hard': {'tau_plus': 0.1}}
    """
    given, by_loss = given or {}, hyperparameters or {}
    check_once("losses", names, "every loss")
    for name in names:
        check_choice("loss", name, methods_of(room))
    if unused := set(by_loss) - set(names):
        raise ValueError(
            f"hyperparameters names losses that are not compared: {', '.join(sorted(unused))}"
        )
    for name, value in given.items():
        if value is not None and not any(takes(method, name) for method in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    # The default temperature of recommenders depends on the score, and is equal for all losses.
    default = LossSettings(BASELINE).resolved() if room == "images" else {}
    common = {**default, **by_loss.get(BASELINE, recorded(BASELINE))}
    temperature = {name: value for name, value in common.items() if name == "temperature"}
    methods = {}
    for method in names:
        loss = method.removesuffix(TEACHER)
        start = {**temperature, **by_loss.get(method, recorded(method))}
        own = {name: value for name, value in given.items() if takes(method, name)}
        share = own.pop(SHARE, start.pop(SHARE, SHARES[0]))
        classes = num_classes if takes(loss, "tau_plus") else None
        chosen = choose_hyperparameters(loss, room, own, num_classes=classes, start=start)
        methods[method] = dict(chosen.hyperparameters)
        if room == "images":
            methods[method][SHARE] = 1.0 if loss == method else share
    return methods
