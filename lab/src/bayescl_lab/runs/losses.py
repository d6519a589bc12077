"""Losses of runs by name, with their hyper-parameters.

A new loss needs a module in :mod:`bayescl.losses` and a row of :data:`LOSSES`. The names and types
of its hyper-parameters are read from its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from typing_extensions import Self

from bayescl.losses import (
    BayesianContrastiveLoss,
    ContrastiveLoss,
    DebiasedContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    OracleContrastiveLoss,
    SupervisedContrastiveLoss,
)
from bayescl_lab._fields import check_choice
from bayescl_lab._types import Config
from bayescl_lab.ranking.losses import BPRLoss

Number = float | int | None
"""Value of a hyper-parameter. ``None`` is the default."""


@dataclass(frozen=True)
class LossRow:
    """A row of the table of losses.

    Attributes:
        title: Name of the loss in tables and figures.
        views: Class of the loss for two views of each item. ``None`` if it is not available.
        ranking: Class of the loss for recommenders. ``None`` if it is not available.
    """

    title: str
    views: type[ContrastiveLoss] | None = None
    ranking: type[ContrastiveLoss] | None = None

    @property
    def loss_class(self) -> type[ContrastiveLoss]:
        """Class of the loss, for views if there is one."""
        return self.views or self.ranking or ContrastiveLoss

    @property
    def needs_labels(self) -> bool:
        """Whether the loss is an oracle, which needs labels."""
        return self.loss_class.needs_groups or self.loss_class.needs_labels

    @cached_property
    def hyperparameters(self) -> Mapping[str, float | int]:
        """Hyper-parameters that runs may vary, with their defaults."""
        default = self.loss_class()
        # The similarity sets minimum_similarity; runs on views set positive_share.
        others = ("minimum_similarity", SHARE)
        names = ("temperature", *self.loss_class.hyperparameters)
        return {name: getattr(default, name) for name in names if name not in others}


LOSSES: dict[str, LossRow] = {
    "info_nce": LossRow("InfoNCE", InfoNCELoss, InfoNCELoss),
    "debiased": LossRow("debiased", DebiasedContrastiveLoss, DebiasedContrastiveLoss),
    "hard": LossRow("hard", HardContrastiveLoss, HardContrastiveLoss),
    "bayesian": LossRow("Bayesian", BayesianContrastiveLoss, BayesianContrastiveLoss),
    "oracle": LossRow("oracle", views=OracleContrastiveLoss),
    "supervised": LossRow("SupCon", views=SupervisedContrastiveLoss),
    "bpr": LossRow("BPR", ranking=BPRLoss),
}
"""All losses by name, in the order of tables."""

BASELINE = "info_nce"
"""Loss that differences are measured from."""

TEACHER = "+teacher"
"""Suffix of the names of losses with a teacher, such as ``info_nce+teacher``."""

DOMAINS = "+domains"
"""Suffix of the names of losses with candidates of the item's own domain only. It precedes
:data:`TEACHER`: ``info_nce+domains+teacher``."""

SHARE = "positive_share"
"""Setting of runs on views: the share of the target for the other view."""

VIEW_METHODS = (
    *("info_nce", "debiased", "hard", "bayesian", "info_nce+teacher", "bayesian+teacher"),
    *("oracle", "supervised"),
)
"""Default methods of a comparison on views."""


ARRAY_METHODS = (
    *("info_nce", "info_nce+teacher", "info_nce+domains", "info_nce+domains+teacher"),
    *("bayesian+domains+teacher", "oracle", "supervised"),
)
"""Default methods of a comparison on arrays."""


def view_methods() -> tuple[str, ...]:
    """Return the names of losses for views, with and without suffixes for domains and a teacher."""
    losses = LossSettings.classes()
    plain = [name for name in losses if not LOSSES[name].needs_labels]
    suffixes = (TEACHER, DOMAINS, f"{DOMAINS}{TEACHER}")
    return (*losses, *(f"{name}{suffix}" for suffix in suffixes for name in plain))


def loss_of(method: str) -> str:
    """Return the name of the loss of a method.

    Example:
        >>> loss_of("info_nce+domains+teacher")
        'info_nce'
    """
    return method.partition("+")[0]


def methods_with_teacher(names: Iterable[str], teacher: str | None) -> list[str]:
    """Add the suffix :data:`TEACHER` to the names of losses for which ``teacher`` is meant.

    A teacher is meant for the names with the suffix or, if there are none, for all losses that do
    not need labels.

    Args:
        names: Names of losses, with or without the suffix.
        teacher: "items", a file, "none", or ``None`` if it is not given.

    Raises:
        ValueError: if a name is unknown, or the teacher is "none", but a name has the suffix.

    Example:
        >>> methods_with_teacher(["info_nce", "oracle"], "items")
        ['info_nce+teacher', 'oracle']
    """
    names = list(names)
    for name in names:
        check_choice("loss", name, view_methods())
    named = [name for name in names if name.endswith(TEACHER)]
    if teacher == "none" and named:
        raise ValueError(f"the loss {named[0]} needs --teacher items or --teacher FILE, got 'none'")
    if teacher is None or teacher == "none" or named:
        return names
    return [name if LOSSES[loss_of(name)].needs_labels else f"{name}{TEACHER}" for name in names]


def has_hyperparameter(method: str, name: str) -> bool:
    """Return whether a method has a hyper-parameter of that name."""
    is_share = name == SHARE and method.endswith(TEACHER)
    return name in LOSSES[loss_of(method)].hyperparameters or is_share


@dataclass(frozen=True)
class LossSettings:
    """A loss on two views, by name, with given hyper-parameters and defaults for the others.

    Attributes:
        loss: Name of the loss.
        hyperparameters: Values of hyper-parameters by name. ``None`` is the default.

    Raises:
        ValueError: if the name is unknown, the loss does not have a hyper-parameter, or a value is
            out of range.

    Example:
        >>> LossSettings("debiased", {"tau_plus": 0.2}).resolved()
        {'temperature': 0.5, 'tau_plus': 0.2}
    """

    loss: str
    hyperparameters: Mapping[str, Number] = field(default_factory=dict)
    defaults: ClassVar[Mapping[str, Number]] = {}
    """Defaults of runs that differ from the defaults of the losses."""

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, tuple(self.classes()))
        known = LOSSES[self.loss].hyperparameters
        given = {name: it for name, it in self.hyperparameters.items() if it is not None}
        object.__setattr__(self, "hyperparameters", given)
        for name, value in given.items():
            if not isinstance(value, (int, float)):
                raise ValueError(f"{name} must be a number, got {value!r}")  # noqa: TRY004
            if name not in known:
                raise ValueError(
                    f"the loss {self.loss} does not take {name}; it takes {', '.join(known)}"
                )
        self.build()

    @classmethod
    def classes(cls) -> dict[str, type[ContrastiveLoss]]:
        """Return the available losses by name, in the order of tables."""
        return {name: row.views for name, row in LOSSES.items() if row.views is not None}

    @property
    def loss_class(self) -> type[ContrastiveLoss]:
        """Class that computes the loss."""
        return self.classes()[self.loss]

    def build(self, **options: Any) -> ContrastiveLoss:
        """Create the loss with further arguments of :class:`~bayescl.ContrastiveLoss`."""
        return self.loss_class(**{"normalize": True, **self.resolved(), **options})

    @property
    def takes_ranks(self) -> bool:
        """Whether the loss has an argument ``ranks``."""
        return "ranks" in inspect.signature(self.loss_class).parameters

    def resolved(self) -> dict[str, Number]:
        """Return all hyper-parameters, with defaults where no value is given."""
        own = LOSSES[self.loss].hyperparameters
        given: Any = self.hyperparameters
        given = {name: type(own[name])(value) for name, value in given.items()}
        defaults = {name: self.defaults.get(name, value) for name, value in own.items()}
        return {**defaults, **given}

    def as_config(self) -> Config:
        """Return the name and all hyper-parameters as plain values for a run's settings."""
        return {"loss": self.loss, **self.resolved()}

    @classmethod
    def pop_from(cls, config: Config) -> Self:
        """Remove a loss from a run's settings and return it."""
        names = {name for row in LOSSES.values() for name in row.hyperparameters}
        given = {name: config.pop(name) for name in names & config.keys()}
        return cls(config.pop("loss"), given)


@dataclass(frozen=True)
class RankingLossSettings(LossSettings):
    """A loss of a recommender; see :class:`LossSettings`.

    The default ``tau_plus`` is the density of the training interactions, or a tenth of it for the
    debiased and the hard loss.

    Example:
        >>> RankingLossSettings("debiased").resolved()
        {'temperature': 0.15, 'tau_plus': None}
        >>> RankingLossSettings("bayesian", {"beta": 0.5}).build(density=0.06).tau_plus
        0.06
    """

    loss: str = "info_nce"
    defaults: ClassVar = {"temperature": 0.15, "concentration": 0.03, "tau_plus": None}

    @classmethod
    def classes(cls) -> dict[str, type[ContrastiveLoss]]:
        """Return the losses of recommenders by name, in the order of tables."""
        return {name: row.ranking for name, row in LOSSES.items() if row.ranking is not None}

    def build(self, *, density: float = 0.01, **options: Any) -> ContrastiveLoss:
        """Create the loss, given the density of the training interactions."""
        values = self.resolved()
        if "tau_plus" in values and values["tau_plus"] is None:
            # The density counts known items, which are not candidates. With the whole density,
            # the debiased and the hard loss are below InfoNCE.
            options["tau_plus"] = density * (0.1 if self.loss in ("debiased", "hard") else 1.0)
        return super().build(**options)
