"""Losses by name, with the hyper-parameters that each takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayescl._checks import check_choice
from bayescl.losses import (
    BayesianContrastiveLoss,
    ContrastiveLoss,
    DebiasedContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    OracleContrastiveLoss,
)

_CLASSES: dict[str, type[ContrastiveLoss]] = {
    "info_nce": InfoNCELoss,
    "debiased": DebiasedContrastiveLoss,
    "hard": HardContrastiveLoss,
    "bayesian": BayesianContrastiveLoss,
    "oracle": OracleContrastiveLoss,
}
_HYPERPARAMETERS: dict[str, tuple[str, ...]] = {
    "info_nce": ("temperature",),
    "debiased": ("temperature", "tau_plus"),
    "hard": ("temperature", "tau_plus", "concentration"),
    "bayesian": ("temperature", "tau_plus", "alpha", "beta"),
    "oracle": ("temperature",),
}

LOSSES = tuple(_CLASSES)
"""Names of the losses, baselines first and the oracle last, the order of tables."""

HYPERPARAMETERS = ("temperature", "tau_plus", "alpha", "beta", "concentration")
"""Names of all hyper-parameters; each loss takes some."""

TITLES = {
    "info_nce": "InfoNCE",
    "debiased": "debiased",
    "hard": "hard",
    "bayesian": "Bayesian",
    "oracle": "oracle",
}
"""What a reader sees instead of a loss's name."""


@dataclass(frozen=True)
class LossSettings:
    """A loss by name and the hyper-parameters given for it; the others keep their defaults.

    Attributes:
        loss: one of :data:`LOSSES`.
        hyperparameters: values by name.

    Raises:
        ValueError: if the name is unknown, the loss does not take a hyper-parameter, or a value
            is out of its range.

    Example:
        >>> LossSettings("debiased", {"tau_plus": 0.2}).resolved()
        {'temperature': 0.5, 'tau_plus': 0.2}
    """

    loss: str
    hyperparameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        taken = _HYPERPARAMETERS[self.loss]
        for name in self.hyperparameters:
            if name not in taken:
                raise ValueError(
                    f"the loss {self.loss} does not take {name}; it takes {', '.join(taken)}"
                )
        self.build()

    def build(self, **options: Any) -> ContrastiveLoss:
        """The loss itself, with further options that every loss takes."""
        return _CLASSES[self.loss](**self.hyperparameters, **options)

    def resolved(self) -> dict[str, float]:
        """Every hyper-parameter of the loss, those left at their defaults included."""
        loss = self.build()
        return {name: float(getattr(loss, name)) for name in _HYPERPARAMETERS[self.loss]}


def takes(loss: str, hyperparameter: str) -> bool:
    """Whether a loss has a hyper-parameter of that name."""
    return hyperparameter in _HYPERPARAMETERS[loss]


def choose_hyperparameters(
    loss: str,
    given: Mapping[str, float | None],
    *,
    num_classes: int | None = None,
    recorded: Mapping[str, float] | None = None,
) -> LossSettings:
    """Settle a loss's hyper-parameters from what was asked for and what was recorded.

    An explicit value wins over one derived from the number of classes, that over a recorded
    one, and that over the loss's default.

    Args:
        loss: one of :data:`LOSSES`.
        given: values asked for; None where nothing was.
        num_classes: sets ``tau_plus = 1 / num_classes`` and ``beta = 1 - 1 / num_classes``
            for the losses that take them.
        recorded: values chosen earlier for the same data.

    Raises:
        ValueError: if the loss is unknown, or does not take what was asked for, or not in that
            range.

    Example:
        >>> choose_hyperparameters("hard", {"tau_plus": None}, num_classes=5).hyperparameters
        {'tau_plus': 0.2}
    """
    check_choice("loss", loss, LOSSES)
    values = dict(recorded or {})
    if num_classes is not None:
        if not takes(loss, "tau_plus"):
            raise ValueError(f"the loss {loss} does not take num_classes")
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}")
        values["tau_plus"] = 1 / num_classes
        if takes(loss, "beta"):
            values["beta"] = 1 - 1 / num_classes
    values |= {name: value for name, value in given.items() if value is not None}
    return LossSettings(loss, values)
