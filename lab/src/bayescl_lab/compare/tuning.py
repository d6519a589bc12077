"""Tuning on a validation split, with the same number of settings for every loss.

The validation split is held out of the training split. The test split is not used, and the seeds
differ from the seeds of the comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from bayescl_lab._types import Config, Values
from bayescl_lab.runs.losses import SHARE, TEACHER

Grid = Mapping[str, Sequence[object]]
"""Values to try by the name of a setting. All combinations are tried."""

WORTH_TRYING: Mapping[str, Sequence[float]] = {
    "positive_share": (0.5, 0.1, 0.2, 1.0),
    "tau_plus": (0.05, 0.2, 0.01),
    "concentration": (0.1, 0.5, 0.25),
    "alpha": (1.0, 0.8),
    "beta": (0.5, 0.7, 0.6),
}
"""Values of each hyper-parameter to try, the most promising first."""


def stages(
    first: Mapping[str, Values], count: int
) -> tuple[Mapping[str, Sequence[Values]], Mapping[str, Sequence[Values]]]:
    """Return the settings to try for every method, in two stages with the same total for all.

    The first stage varies the temperature: the given one, and others from a quarter to twice as
    high. Up to half of the settings are in the second stage, which uses the best temperature and
    changes one other value at a time. Methods without other values get more temperatures.
    """
    changes = {name: other_values(name, values)[: count // 2] for name, values in first.items()}
    by_temperature = {
        name: [
            {"temperature": one}
            for one in temperatures(values["temperature"], count - len(changes[name]))
        ]
        for name, values in first.items()
    }
    return by_temperature, changes


def temperatures(first: float, count: int) -> list[float]:
    """Return ``first`` and others, spread on a log scale from a quarter to twice ``first``.

    Example:
        >>> temperatures(0.5, 4)
        [0.5, 0.354, 0.21, 0.595]
    """
    # Van der Corput's sequence: 1/2, 1/4, 3/4, 1/8, 5/8, ...
    fractions = [int(bin(k)[:1:-1], 2) / 2 ** k.bit_length() for k in range(1, count)]
    return [first, *(float(f"{first * 2 ** (3 * fraction - 2):.3g}") for fraction in fractions)]


def other_values(loss: str, values: Values) -> list[dict[str, float]]:
    """Return other values of the positive share (with a teacher) and of each hyper-parameter.

    Example:
        >>> other_values("info_nce+teacher", {"temperature": 0.5, "positive_share": 0.5})
        [{'positive_share': 0.1}, {'positive_share': 0.2}, {'positive_share': 1.0}]
    """
    others = {
        name: [{name: value} for value in WORTH_TRYING.get(name, ()) if value != held]
        for name, held in values.items()
    }
    shares = others.pop(SHARE, [])
    rounds = itertools.zip_longest(*others.values())
    further = [change for changes in rounds for change in changes if change is not None]
    return [*(shares if loss.endswith(TEACHER) else ()), *further]


def settings_of(grid: Grid) -> list[Config]:
    """Return every combination of a grid.

    Example:
        >>> settings_of({"a": (1.0, 2.0), "b": ("x",)})
        [{'a': 1.0, 'b': 'x'}, {'a': 2.0, 'b': 'x'}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def name_of(values: Values) -> str:
    """Format values as a part of a file name.

    Example:
        >>> name_of({"lr": 0.010, "split": "last"})
        'lr0.01-split-last'
    """
    return "-".join(
        f"{name}{value:g}" if isinstance(value, (int, float)) else f"{name}-{value}"
        for name, value in values.items()
    )


def check_once(name: str, values: Sequence[str]) -> None:
    """Check that there is at least one name, and no name twice."""
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must contain distinct names, got {', '.join(values) or 'none'}")
