"""Hyper-parameters that change during training, as pure functions of the epoch.

A schedule has no state, so a resumed run needs only the number of its epoch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import nn

from bayescl.checks import check_count, check_finite_number


class Schedule(Protocol):
    """The value of a hyper-parameter in each epoch."""

    def value(self, epoch: int) -> float:
        """Return the value in an epoch, counted from 0."""
        ...


@dataclass(frozen=True)
class Fixed:
    """The same value in every epoch.

    Attributes:
        level: the value.

    Raises:
        ValueError: if ``level`` is not a finite number.

    Example:
        >>> Fixed(0.9).value(100)
        0.9
    """

    level: float

    def __post_init__(self) -> None:
        check_finite_number("level", self.level)

    def value(self, epoch: int) -> float:
        """Return the value in an epoch, counted from 0."""
        check_count("epoch", epoch, 0)
        return self.level


@dataclass(frozen=True)
class LinearRamp:
    """A ramp from ``start`` to ``end`` in equal steps, one every few epochs; then constant.

    The defaults are the authors' ramp for ``alpha``: twenty values from 0.501 to ``end``, each
    for twenty epochs. An encoder that has learned nothing yet ranks no better than chance.

    Attributes:
        end: the last value.
        start: the value in the first ``every`` epochs.
        steps: number of values, including both ends; at least 1. With 1 the value is ``end``.
        every: number of epochs for each value, at least 1.

    Raises:
        ValueError: if a number is not finite or a count too small.

    Example:
        >>> ramp = LinearRamp(0.9, start=0.5, steps=3, every=2)
        >>> [round(ramp.value(epoch), 3) for epoch in range(6)]
        [0.5, 0.5, 0.7, 0.7, 0.9, 0.9]

    Reference:
        Liu et al., ICML 2024, and the authors' training script.
    """

    end: float
    start: float = 0.501
    steps: int = 20
    every: int = 20

    def __post_init__(self) -> None:
        check_finite_number("end", self.end)
        check_finite_number("start", self.start)
        check_count("steps", self.steps, 1)
        check_count("every", self.every, 1)

    def value(self, epoch: int) -> float:
        """Return the value in an epoch, counted from 0."""
        step = check_count("epoch", epoch, 0) // self.every
        if step >= self.steps - 1:
            return self.end
        share = step / (self.steps - 1)
        return (1 - share) * self.start + share * self.end

    @classmethod
    def over(cls, epochs: int, end: float, *, start: float = 0.501, steps: int = 20) -> LinearRamp:
        """Return the ramp that reaches ``end`` in a run of ``epochs`` epochs.

        A run shorter than the authors' 400 epochs takes faster steps, at most one per epoch.

        Args:
            epochs: number of epochs of the whole run, at least 1.
            end: the last value.
            start: the first value.
            steps: largest number of values.

        Raises:
            ValueError: if a number is not finite or a count too small.

        Example:
            >>> LinearRamp.over(400, 0.9) == LinearRamp(0.9)
            True
            >>> LinearRamp.over(30, 0.9, steps=20).value(29)
            0.9
        """
        check_count("epochs", epochs, 1)
        check_count("steps", steps, 1)
        return cls(end, start, min(steps, epochs), max(1, epochs // steps))


def apply_schedule(schedule: Schedule, loss: nn.Module, name: str, epoch: int) -> float:
    """Set a hyper-parameter of a loss to its value in an epoch.

    Args:
        schedule: gives the value.
        loss: any loss of :mod:`bayescl.losses`, or another module with such an attribute.
        name: the hyper-parameter, such as ``"alpha"``.
        epoch: counted from 0.

    Returns:
        The value that was set.

    Raises:
        ValueError: if the loss has no such hyper-parameter, or the value is out of its range.

    Example:
        >>> import bayescl
        >>> loss = bayescl.BayesianContrastiveLoss()
        >>> apply_schedule(LinearRamp(0.9, start=0.5, steps=3, every=1), loss, "alpha", epoch=2)
        0.9
        >>> loss.alpha
        0.9
    """
    if name not in ("temperature", *getattr(loss, "hyperparameters", ())):
        raise ValueError(f"{type(loss).__name__} has no hyper-parameter {name}")
    value = schedule.value(epoch)
    setattr(loss, name, value)
    return value
