"""The table of losses for runs, commands, tables and figures.

A new loss needs a module in :mod:`bayescl.losses` and a row of :data:`LOSSES`. The names and types
of its hyper-parameters are read from its class.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from torch import nn
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
from bayescl_lab._figures import NEUTRAL
from bayescl_lab.ranking.losses import BPRLoss


@dataclass(frozen=True)
class LossRow:
    """A row of the table of losses.

    Attributes:
        title: Name of the loss in tables and figures.
        color: Color of the loss in figures.
        images: Class of the loss in runs on images. ``None`` if it is not available.
        ranking: Class of the loss in runs on interactions. ``None`` if it is not available.
    """

    title: str
    color: str
    images: type[ContrastiveLoss] | None = None
    ranking: type[nn.Module] | None = None

    @property
    def needs_labels(self) -> bool:
        """Whether the loss is an oracle, which needs labels."""
        return self.images is not None and (self.images.needs_groups or self.images.needs_labels)

    @cached_property
    def hyperparameters(self) -> Mapping[str, type]:
        """Names and types (``float`` or ``int``) of hyper-parameters that runs may vary."""
        made: Any = self.images or self.ranking
        names = ("temperature", *getattr(made, "hyperparameters", ()))
        # The similarity sets minimum_similarity; runs on images set positive_share.
        others, built = ("minimum_similarity", "positive_share"), made()
        return {name: type(getattr(built, name)) for name in names if name not in others}

    @property
    def alternatives(self) -> Mapping[str, Sequence[float]]:
        """Values of each hyper-parameter for a search, from the class of the loss."""
        made: Any = self.images or self.ranking
        held = {name: inspect.getattr_static(made, name, None) for name in self.hyperparameters}
        return {name: getattr(one, "worth_trying", ()) for name, one in held.items()}


LOSSES: dict[str, LossRow] = {
    "info_nce": LossRow("InfoNCE", NEUTRAL, InfoNCELoss, InfoNCELoss),
    "debiased": LossRow("debiased", "#2a7fb8", DebiasedContrastiveLoss, DebiasedContrastiveLoss),
    "hard": LossRow("hard", "#b8722a", HardContrastiveLoss, HardContrastiveLoss),
    "bayesian": LossRow("Bayesian", "#c0392b", BayesianContrastiveLoss, BayesianContrastiveLoss),
    "oracle": LossRow("oracle", "#2e8b57", images=OracleContrastiveLoss),
    "supervised": LossRow("SupCon", "#1b5e3a", images=SupervisedContrastiveLoss),
    "bpr": LossRow("BPR", "#7d5ba6", ranking=BPRLoss),
}
"""All losses by name, in the order of tables."""

BASELINE, ORACLE = "info_nce", "oracle"
"""Names of the baseline of differences and the oracle."""

TEACHER = "_teacher"
"""Suffix of the names of losses with a teacher, such as ``info_nce_teacher``."""

SHARE = "positive_share"
"""Setting of runs on images that turns the teacher off at 1."""

SHARES = (0.5, 0.1, 0.2, 1.0)
"""Values of this setting that tuning tries for a method with a teacher, the default first."""

IMAGE_METHODS = (
    *("info_nce", "debiased", "hard", "bayesian", "info_nce_teacher", "bayesian_teacher"),
    *("oracle", "supervised"),
)
"""Default methods of a comparison on images."""


Room = Literal["images", "ranking"]
"""Kind of training data: images, or interactions of users and items."""


def losses_of(room: Room) -> tuple[str, ...]:
    """Return the names of the losses for images or ranking, in the order of tables."""
    return tuple(name for name, row in LOSSES.items() if getattr(row, room) is not None)


def methods_of(room: Room) -> tuple[str, ...]:
    """Return the names of methods: losses and, on images, unsupervised losses with a teacher."""
    losses = losses_of(room)
    plain = [name for name in losses if room == "images" and not LOSSES[name].needs_labels]
    return (*losses, *(f"{name}{TEACHER}" for name in plain))


def takes(method: str, name: str) -> bool:
    """Return whether a method has a hyper-parameter of that name."""
    loss = method.removesuffix(TEACHER)
    return name in LOSSES[loss].hyperparameters or (name == SHARE and loss != method)


_DENSITY_SHARES = {"debiased": 0.1, "hard": 0.1}
"""Default ``tau_plus`` of recommenders as a share of the density; 1 for other losses. The density
counts known items, which are not candidates. With the whole density, these two losses are below
InfoNCE."""


@dataclass(frozen=True)
class LossSettings:
    """A loss by name with given hyper-parameters and defaults for the others.

    The default ``tau_plus`` of a recommender is the density of the training interactions, or a
    tenth of it for the debiased and the hard loss.

    Attributes:
        loss: Name of the loss; see :func:`losses_of`.
        hyperparameters: Values of hyper-parameters by name. ``None`` is the default.
        room: Kind of training data, "images" or "ranking".

    Raises:
        ValueError: if the name is unknown, the loss does not have a hyper-parameter, or a value is
            out of range.

    Example:
        >>> LossSettings("debiased", {"tau_plus": 0.2}).resolved()
        {'temperature': 0.5, 'tau_plus': 0.2}
        >>> LossSettings("debiased", room="ranking").resolved()
        {'temperature': 0.15, 'tau_plus': None}
        >>> LossSettings("bayesian", {"beta": 0.5}, "ranking").build(density=0.06).tau_plus
        0.06
    """

    loss: str
    hyperparameters: Mapping[str, float | None] = field(default_factory=dict)
    room: Room = "images"

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, losses_of(self.room))
        taken = LOSSES[self.loss].hyperparameters
        given = {name: it for name, it in self.hyperparameters.items() if it is not None}
        object.__setattr__(self, "hyperparameters", given)
        for name, value in given.items():
            if not isinstance(value, (int, float)):
                raise ValueError(f"{name} must be a number, got {value!r}")  # noqa: TRY004
            if name not in taken:
                raise ValueError(
                    f"the loss {self.loss} does not take {name}; it takes {', '.join(taken)}"
                )
        self.build()

    @property
    def made(self) -> Any:
        """Class of the loss."""
        return getattr(LOSSES[self.loss], self.room)

    def build(self, *, density: float = 0.01, **options: Any) -> Any:
        """Create the loss with further arguments of :class:`~bayescl.ContrastiveLoss`.

        ``density`` is the density of the training interactions of a recommender.
        """
        values = self.resolved()
        if values.get("tau_plus", 0) is None:
            values["tau_plus"] = density * _DENSITY_SHARES.get(self.loss, 1.0)
        return self.made(normalize=True, **values, **options)

    @property
    def takes_ranks(self) -> bool:
        """Whether the loss has an argument ``ranks``."""
        return "ranks" in inspect.signature(self.made).parameters

    def resolved(self) -> dict[str, Any]:
        """Return all hyper-parameters with defaults. ``tau_plus`` is ``None`` for the density."""
        kinds, built = LOSSES[self.loss].hyperparameters, self.made()
        values = {name: kinds[name](value) for name, value in self.hyperparameters.items()}
        if self.room == "ranking":
            values = {"temperature": 0.15, "concentration": 0.03, "tau_plus": None} | values
        return {
            name: values[name] if name in values else kind(getattr(built, name))
            for name, kind in kinds.items()
        }

    def as_config(self) -> dict[str, Any]:
        """Return the name and all hyper-parameters as plain values for a run's settings."""
        return {"loss": self.loss, **self.resolved()}

    @classmethod
    def taken_from(cls, values: dict[str, Any], room: Room = "images") -> Self:
        """Remove a loss from a run's settings and return it."""
        names = {name for row in LOSSES.values() for name in row.hyperparameters}
        given = {name: values.pop(name) for name in names & values.keys()}
        return cls(values.pop("loss"), given, room)


def ranking_loss(
    loss: str = "bayesian", hyperparameters: Mapping[str, float] | None = None
) -> LossSettings:
    """Return the loss of a recommender; see :class:`LossSettings`."""
    return LossSettings(loss, hyperparameters or {}, "ranking")
