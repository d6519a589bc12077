"""Grids of settings to try, the same budget for every loss, and the choice between them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bayescl_lab.runs.losses import BASELINE

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the name of a setting; every combination is tried."""

Values = Mapping[str, Any]
"""One of them."""

Trial = tuple[str, Values, Values]
"""Settings to try: a loss, its hyper-parameters, and what all losses share."""

Scores = dict[str, dict[str, Any]]
"""By the name of a trial, its ``score``, a number or statistics with a ``mean``, and its cost."""


def choose_settings(
    shared_grid: Grid,
    loss_grids: Mapping[str, Grid],
    score: Callable[[Mapping[str, Trial]], Scores],
    *,
    shared_loss: Values,
    shared: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Try settings and choose those with the best score.

    First those that all losses share are tried with InfoNCE; the choice holds for every loss. Then
    the hyper-parameters of each loss are tried.

    Args:
        shared_grid: settings tried for all losses together; one combination needs no trial.
        loss_grids: hyper-parameters tried for each loss.
        score: trains trials, given by name, and scores them on the validation part.
        shared_loss: hyper-parameters of InfoNCE while shared settings are tried.
        shared: an earlier choice of shared settings, which is kept; default: choose now.

    Returns:
        For the shared settings, and for each loss by name: the ``choice`` and the ``scores`` of all
        that was tried, each with its ``values``.
    """
    if shared is None:
        grid = {f"shared-{name_of(values)}": values for values in settings_of(shared_grid)}
        trials = {name: (BASELINE, shared_loss, values) for name, values in grid.items()}
        shared = {"choice": next(iter(grid.values())), "scores": {}}
        if len(grid) > 1:
            shared = _chosen(grid, score(trials))
    tried = {
        loss: {f"{loss}-{name_of(values)}": values for values in settings_of(grid)}
        for loss, grid in loss_grids.items()
    }
    common = shared["choice"]
    scores = score(
        {
            name: (loss, values, common)
            for loss, grid in tried.items()
            for name, values in grid.items()
        }
    )
    return shared, {loss: _chosen(grid, scores) for loss, grid in tried.items()}


def _chosen(grid: Mapping[str, Values], scores: Scores) -> dict[str, Any]:
    """The choice among some trials, and the score of each."""
    own = {name: {"values": values, **scores[name]} for name, values in grid.items()}
    return {"choice": grid[best(own)], "scores": own}


def best(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the highest score; the first of equal ones.

    Example:
        >>> best({"a": {"score": 0.5}, "b": {"score": {"mean": 0.6, "spread": 0.1}}})
        'b'
    """

    def value(name: str) -> float:
        score = scores[name]["score"]
        return float(score["mean"] if isinstance(score, Mapping) else score)

    return max(scores, key=value)


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
