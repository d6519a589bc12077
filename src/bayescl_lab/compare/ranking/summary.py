"""Figures of a loss over its seeds, and of baselines, in the form that tables and figures read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bayescl_lab.runs.statistics import mean_and_spread

SPREAD = "standard deviation over seeds"
"""Name of the spread."""

ALIKE = ("protocol", "evaluated_on", "interactions", "density", "report", "users", "users_left_out")
"""Settings that all runs of a cell share."""


def loss_summary(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of one loss over its seeds.

    Args:
        results: the ``result.json`` of its runs, seed by seed.
    """
    settings = {key: value for key, value in results[0]["settings"].items() if key != "seed"}
    return {
        "metrics": {
            metric: mean_and_spread([result["metrics"][metric] for result in results])
            for metric in results[0]["metrics"]
        },
        "epochs": results[0]["epochs"],
        "seconds_per_epoch": mean_and_spread([result["seconds_per_epoch"] for result in results]),
        "evaluation_seconds": mean_and_spread([result["evaluation_seconds"] for result in results]),
        "settings": settings,
    }


def baseline_summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a baseline in the same form; nothing in it is random."""
    return {
        "metrics": {name: mean_and_spread([value]) for name, value in result["metrics"].items()},
        "fit_seconds": result["fit_seconds"],
        "settings": result["settings"],
    }
