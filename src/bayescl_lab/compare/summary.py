"""Figures over seeds: means, spreads, paired differences and the oracle gap closed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from bayescl_lab.runs.losses import BASELINE, ORACLE

SPREAD = "standard deviation over seeds"
"""What the spread of a figure is, in words."""

_ALIKE = "evaluated_on", "interactions", "density", "report", "users", "users_left_out"
"""Figures that all runs of a cell share."""


def mean_and_spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (None for a single value) and the values themselves.

    Example:
        >>> mean_and_spread([1.0, 3.0])
        {'mean': 2.0, 'spread': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "spread": spread, "values": list(values)}


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Ours less theirs, paired by seed: runs with the same seed see the same batches and draws.

    Example:
        >>> paired_difference([0.5, 0.75], [0.25, 0.25])["mean"]
        0.375
    """
    return mean_and_spread([our - their for our, their in zip(ours, theirs, strict=True)])


def by_method(
    results: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[Mapping[str, Any]]]:
    """The results of each method seed by seed, from those of runs by ``<method>-seed<seed>``."""
    methods: dict[str, list[Mapping[str, Any]]] = {}
    for name, result in results.items():
        methods.setdefault(name.rpartition("-seed")[0], []).append(result)
    return {name: sorted(runs, key=lambda run: int(run["seed"])) for name, runs in methods.items()}


def summarise(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of runs on images that share everything but method and seed, by the runs' names.

    ``losses`` has by name the mean and spread of every probe, the share of the oracle's gap closed,
    and seconds per epoch; ``spread`` says what that is.
    """
    from bayescl_lab.images.probes import PROBES  # recommenders do without

    by_loss = by_method(results)
    first = next(iter(by_loss.values()))
    probes = [probe for probe in PROBES if probe in first[0]["probes"]]
    few = [probe for probe in probes if probe.startswith("few_label_")]

    def values(loss: str, probe: str) -> list[float]:
        return [result["probes"][probe] for result in by_loss[loss]]

    losses: dict[str, Any] = {
        name: {
            "probes": {probe: mean_and_spread(values(name, probe)) for probe in probes},
            "seconds_per_epoch": mean_and_spread([run["seconds_per_epoch"] for run in runs]),
        }
        for name, runs in by_loss.items()
    }
    for name, entry in losses.items():
        if BASELINE in losses and ORACLE in losses:
            entry["gap_closed"] = {probe: _gap_closed(losses, name, probe) for probe in few}
    return {"spread": SPREAD, "seeds": [run["seed"] for run in first], "losses": losses}


def _gap_closed(losses: Mapping[str, Any], name: str, probe: str) -> float | None:
    """(method - InfoNCE) / (oracle - InfoNCE); None if the oracle is not above InfoNCE."""
    baseline, oracle, method = (
        losses[loss]["probes"][probe]["mean"] for loss in (BASELINE, ORACLE, name)
    )
    return (method - baseline) / (oracle - baseline) if oracle > baseline else None


def exceeds_noise(difference: Mapping[str, Any], seeds: int) -> bool:
    """Whether a paired difference is two standard errors or more; never with a single seed."""
    if difference["spread"] is None:
        return False
    return bool(abs(difference["mean"]) >= 2 * difference["spread"] / math.sqrt(seeds))


def cell_summary(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of recommenders' runs that share everything but loss and seed, by the runs' names."""
    by_loss = by_method(results)
    first = next(iter(by_loss.values()))
    return {
        "seeds": len(first),
        "spread": SPREAD,
        **{name: first[0][name] for name in _ALIKE},
        "losses": {loss: _loss_summary(runs) for loss, runs in by_loss.items()},
    }


def _loss_summary(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Figures of a recommender's loss over its seeds, from the results of its runs."""
    first = results[0]
    return {
        "metrics": {
            metric: mean_and_spread([result["metrics"][metric] for result in results])
            for metric in first["metrics"]
        },
        "epochs": first["epochs"],
        **{
            name: mean_and_spread([result[name] for result in results])
            for name in ("seconds_per_epoch", "evaluation_seconds")
        },
        "settings": {name: value for name, value in first["settings"].items() if name != "seed"},
    }


def baseline_summary(result: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of a baseline in the same form; nothing in it is random."""
    return {
        "metrics": {name: mean_and_spread([value]) for name, value in result["metrics"].items()},
        "fit_seconds": result["fit_seconds"],
        "settings": result["settings"],
    }
