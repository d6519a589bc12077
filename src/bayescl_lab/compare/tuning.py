"""Choose settings on a validation part, with as many tries for every loss.

Validation images or interactions are taken out of the training part; the test part plays no role,
and the seeds are not those of the comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from bayescl_lab.runs.losses import LOSSES, SHARE, SHARES, TEACHER

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the name of a setting; every combination is tried."""

Values = Mapping[str, Any]
"""Values of settings, those of a loss among them."""


def stages(
    first: Mapping[str, Values], count: int
) -> tuple[Mapping[str, Sequence[Values]], Mapping[str, Sequence[Values]]]:
    """What a comparison tries of every method, as many settings for each, in two stages.

    The first stage has temperatures: the one given, and others from a quarter to twice as high. Up
    to half of the settings are in the second stage: they have the best of these temperatures and
    change one other value each. A method without any gets more temperatures.
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
    """The first temperature and others, from a quarter to twice as large, that cover it evenly.

    Example:
        >>> temperatures(0.5, 4)
        [0.5, 0.354, 0.21, 0.595]
    """
    # Van der Corput's sequence: 1/2, 1/4, 3/4, 1/8, 5/8, ...
    places = [int(bin(k)[:1:-1], 2) / 2 ** k.bit_length() for k in range(1, count)]
    return [first, *(float(f"{first * 2 ** (3 * place - 2):.3g}") for place in places)]


def other_values(loss: str, values: Values) -> list[dict[str, float]]:
    """Other shares with a teacher; then the first other value of each hyper-parameter, and so on.

    Example:
        >>> other_values("info_nce_teacher", {"temperature": 0.5, "positive_share": 0.5})
        [{'positive_share': 0.1}, {'positive_share': 0.2}, {'positive_share': 1.0}]
    """
    shares = [share for share in SHARES if loss.endswith(TEACHER) and share != values[SHARE]]
    others = [
        [{name: value} for value in alternatives if value != values[name]]
        for name, alternatives in LOSSES[loss.removesuffix(TEACHER)].alternatives.items()
        if name in values
    ]
    rounds = itertools.zip_longest(*others)
    further = [change for changes in rounds for change in changes if change is not None]
    return [*({SHARE: share} for share in shares), *further]


def best(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the highest mean score; the first of equal ones.

    Example:
        >>> best({"a": {"score": {"mean": 0.5}}, "b": {"score": {"mean": 0.6}}})
        'b'
    """
    return max(scores, key=lambda name: float(scores[name]["score"]["mean"]))


def settings_of(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of a grid.

    Example:
        >>> settings_of({"a": (1.0, 2.0), "b": ("x",)})
        [{'a': 1.0, 'b': 'x'}, {'a': 2.0, 'b': 'x'}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def name_of(values: Values) -> str:
    """Values as a part of a file name.

    Example:
        >>> name_of({"lr": 0.010, "split": "last"})
        'lr0.01-split-last'
    """
    return "-".join(
        f"{name}{value:g}" if isinstance(value, (int, float)) else f"{name}-{value}"
        for name, value in values.items()
    )


def check_once(name: str, values: Sequence[str], what: str = "each") -> None:
    """Require names that differ, and at least one of them."""
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must name {what} once, got {', '.join(values) or 'none'}")


def check_same_budget(loss_grids: Mapping[str, Grid]) -> None:
    """Require the same number of settings for every loss."""
    sizes = {loss: len(settings_of(grid)) for loss, grid in loss_grids.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"every loss must get the same number of settings, got {sizes}")
