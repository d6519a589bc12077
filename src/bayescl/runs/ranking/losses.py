"""The losses of recommenders by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import nn

from bayescl._checks import check_choice
from bayescl.recsys.bpr import BPRLoss
from bayescl.recsys.extra_positives import ExtraPositivesDebiasedLoss
from bayescl.runs import losses as loss_settings
from bayescl.runs.losses import LossSettings

BPR = "bpr"
DEBIASED = "debiased"

LOSSES = (*(name for name in loss_settings.LOSSES if name != "oracle"), BPR)
"""Names of the losses, in the order of tables. Nobody knows the true negatives here: no oracle."""

TITLES = {**loss_settings.TITLES, BPR: "BPR"}
"""What a reader sees instead of a loss's name."""

_START = {"temperature": {"cosine": 0.2, "inner": 1.0}, "beta": {"cosine": 0.7, "inner": 0.7}}
"""Where hyper-parameters stand, by score, unless given."""


@dataclass(frozen=True)
class RankingLoss:
    """A loss by name and the hyper-parameters given for it.

    Where ``tau_plus`` is not given it is the density of the interactions in training.

    Attributes:
        loss: one of :data:`LOSSES`.
        hyperparameters: values by name.

    Raises:
        ValueError: if the name is unknown, the loss does not take a hyper-parameter, or a value
            is out of its range.

    Example:
        >>> RankingLoss("debiased").resolved(score="cosine")
        {'temperature': 0.2, 'tau_plus': None}
        >>> RankingLoss("bayesian", {"beta": 0.5}).build(score="cosine", density=0.06).tau_plus
        0.06
    """

    loss: str = "bayesian"
    hyperparameters: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        for name in self.hyperparameters:
            if not takes(self.loss, name):
                taken = ", ".join(_taken(self.loss))
                raise ValueError(f"the loss {self.loss} does not take {name}; it takes {taken}")
        self.build(score="cosine", density=0.01)

    def resolved(self, *, score: str) -> dict[str, float | None]:
        """Every hyper-parameter of the loss; a ``tau_plus`` of None stands for the density."""
        values: dict[str, float | None] = {}
        for name in _taken(self.loss):
            if name in self.hyperparameters:
                values[name] = float(self.hyperparameters[name])
            elif name == "tau_plus":
                values[name] = None
            elif name in _START:
                values[name] = _START[name][score]
            else:
                values[name] = LossSettings(self.loss).resolved()[name]
        return values

    def build(self, *, score: str, density: float) -> nn.Module:
        """The loss itself.

        Args:
            score: how the encoder scores, "cosine" or "inner".
            density: of the interactions in training; what ``tau_plus`` is unless given.
        """
        values = {
            name: density if value is None else value
            for name, value in self.resolved(score=score).items()
        }
        normalize = score == "cosine"
        if self.loss == BPR:
            return BPRLoss(normalize=normalize, **values)
        if self.loss == DEBIASED:
            return ExtraPositivesDebiasedLoss(normalize=normalize, **values)
        return LossSettings(self.loss, values).build(normalize=normalize)


def takes(loss: str, hyperparameter: str) -> bool:
    """Whether a loss has a hyper-parameter of that name."""
    return hyperparameter in _taken(loss)


def _taken(loss: str) -> tuple[str, ...]:
    """Names of the hyper-parameters of a loss."""
    if loss == BPR:
        return ("temperature",)
    return tuple(name for name in loss_settings.HYPERPARAMETERS if loss_settings.takes(loss, name))
