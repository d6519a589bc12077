"""Figures over seeds: mean, spread and paired differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SPREAD = "standard deviation over seeds"
"""What the spread of a figure is, in words."""


@dataclass(frozen=True)
class Score:
    """A figure over seeds.

    Attributes:
        mean: mean of the values.
        spread: their standard deviation; None for a single value.
        values: one value per seed.
    """

    mean: float
    spread: float | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        """The score of some values.

        Example:
            >>> Score.of([1.0, 3.0])
            Score(mean=2.0, spread=1.4142135623730951, values=(1.0, 3.0))
        """
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, tuple(values))

    def stored(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values)}

    def __sub__(self, other: Score) -> Score:
        """The difference to another score, seed by seed."""
        pairs = zip(self.values, other.values, strict=True)
        return Score.of([ours - theirs for ours, theirs in pairs])

    @property
    def sign(self) -> int:
        """The sign of the mean if it is two standard errors or more from 0, else 0."""
        if self.spread is None or abs(self.mean) < 2 * self.spread / math.sqrt(len(self.values)):
            return 0
        return (self.mean > 0) - (self.mean < 0)

    def text(self, form: str = ".1f", *, scale: float = 1.0) -> str:
        """Mean and spread as text; only the mean for a single seed.

        Args:
            form: format of the mean; the spread's is the same without a sign.
            scale: 100 for percent.

        Example:
            >>> Score(0.123, 0.04).text("+.1f", scale=100)
            '+12.3 ± 4.0'
        """
        mean = f"{scale * self.mean:{form}}"
        if float(mean) == 0:  # a rounded -0.0 has no sign of its own
            mean = f"{0.0:{form}}"
        if self.spread is None:
            return mean
        return f"{mean} ± {scale * self.spread:{form.removeprefix('+')}}"


def mean_and_spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation and values of a score, for a file.

    Example:
        >>> mean_and_spread([1.0, 3.0])
        {'mean': 2.0, 'spread': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    return Score.of(values).stored()


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Ours less theirs, paired by seed: runs with the same seed see the same batches and draws.

    Example:
        >>> paired_difference([0.5, 0.75], [0.25, 0.25])["mean"]
        0.375
    """
    return (Score.of(ours) - Score.of(theirs)).stored()
