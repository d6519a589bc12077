"""Scores over seeds: mean, spread and paired differences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SPREAD = "standard deviation over seeds"
"""Description of the spread of a score."""


@dataclass(frozen=True)
class Score:
    """Score over seeds.

    Attributes:
        mean: Mean of the values.
        spread: Standard deviation of the values. ``None`` for a single value.
        values: One value per seed.
    """

    mean: float
    spread: float | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        """Return the score of some values.

        Example:
            >>> Score.of([1.0, 3.0])
            Score(mean=2.0, spread=1.4142135623730951, values=(1.0, 3.0))
        """
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, tuple(values))

    def stored(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values)}

    def __sub__(self, other: Score) -> Score:
        """Return the difference to another score, seed by seed."""
        pairs = zip(self.values, other.values, strict=True)
        return Score.of([ours - theirs for ours, theirs in pairs])

    @property
    def sign(self) -> int:
        """Sign of the mean if it is at least two standard errors from 0, else 0."""
        if self.spread is None or abs(self.mean) < 2 * self.spread / math.sqrt(len(self.values)):
            return 0
        return (self.mean > 0) - (self.mean < 0)

    def text(self, form: str = ".1f", *, scale: float = 1.0) -> str:
        """Format mean and spread; only the mean for a single seed.

        Args:
            form: Format of the mean. The spread has the same format without a sign.
            scale: Factor, such as 100 for percent.

        Example:
            >>> Score(0.123, 0.04).text("+.1f", scale=100)
            '+12.3 ± 4.0'
        """
        mean = f"{scale * self.mean:{form}}"
        if float(mean) == 0:  # remove the sign of a rounded -0.0
            mean = f"{0.0:{form}}"
        if self.spread is None:
            return mean
        return f"{mean} ± {scale * self.spread:{form.removeprefix('+')}}"


def mean_and_spread(values: Sequence[float]) -> dict[str, Any]:
    """Return mean, standard deviation and values of a score for a file.

    Example:
        >>> mean_and_spread([1.0, 3.0])
        {'mean': 2.0, 'spread': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    return Score.of(values).stored()


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Return the difference ``ours - theirs``, paired by seed.

    Example:
        >>> paired_difference([0.5, 0.75], [0.25, 0.25])["mean"]
        0.375
    """
    return (Score.of(ours) - Score.of(theirs)).stored()
