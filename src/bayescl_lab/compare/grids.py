"""Grids of settings to try, and the same budget for every loss."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the name of a setting; every combination is tried."""

Values = Mapping[str, Any]
"""One of them."""


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


def check_same_budget(loss_grids: Mapping[str, Grid]) -> None:
    """Require the same number of settings for every loss.

    Raises:
        ValueError: if numbers of settings differ, or there are no losses.
    """
    sizes = {loss: len(settings_of(grid)) for loss, grid in loss_grids.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"every loss must get the same number of settings, got {sizes}")
