"""What a comparison says: means, spreads, paired differences and the oracle gap closed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayescl_lab.images.probes import PROBES, probe_title
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE, SUBJECT
from bayescl_lab.runs.statistics import mean_and_spread, paired_difference


def summarise(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise runs that share everything but loss and seed.

    Args:
        results: the ``result.json`` of every run, each seed of each loss once.

    Returns:
        Plain values: ``losses``, by name the mean and spread of every probe, of its paired
        difference to InfoNCE, the share of the oracle's gap closed, and seconds per epoch;
        ``remarks``, sentences computed from those figures; and ``spread``, which says what the
        spread is.
    """
    names = list(dict.fromkeys(result["settings"]["loss"] for result in results))
    seeds = sorted({result["seed"] for result in results})
    scores: dict[str, dict[int, Mapping[str, Any]]] = {name: {} for name in names}
    for result in results:
        scores[result["settings"]["loss"]][result["seed"]] = result
    probes = [probe for probe in PROBES if probe in results[0]["probes"]]

    def values(loss: str, probe: str) -> list[float]:
        return [scores[loss][seed]["probes"][probe] for seed in seeds]

    losses: dict[str, Any] = {}
    for name in names:
        entry: dict[str, Any] = {
            "probes": {probe: mean_and_spread(values(name, probe)) for probe in probes},
            "seconds_per_epoch": mean_and_spread(
                [scores[name][seed]["seconds_per_epoch"] for seed in seeds]
            ),
        }
        if BASELINE in names and name != BASELINE:
            entry["paired_difference"] = {
                probe: paired_difference(values(name, probe), values(BASELINE, probe))
                for probe in probes
            }
        losses[name] = entry
    if BASELINE in names and ORACLE in names:
        few = [probe for probe in probes if probe.startswith("few_label_")]
        for name in names:
            losses[name]["gap_closed"] = {probe: gap_closed(losses, name, probe) for probe in few}
    return {
        "spread": "standard deviation over seeds",
        "seeds": seeds,
        "losses": losses,
        "remarks": remarks(losses, len(seeds)),
    }


def gap_closed(losses: Mapping[str, Any], name: str, probe: str) -> float | None:
    """(method - InfoNCE) / (oracle - InfoNCE); None if the oracle is not above InfoNCE."""
    baseline, oracle, method = (
        losses[loss]["probes"][probe]["mean"] for loss in (BASELINE, ORACLE, name)
    )
    return (method - baseline) / (oracle - baseline) if oracle > baseline else None


def remarks(losses: Mapping[str, Any], seeds: int) -> list[str]:
    """What the figures say of the oracle and of the Bayesian loss, good or bad."""
    sentences = []
    if ORACLE in losses and BASELINE in losses:
        for probe, difference in losses[ORACLE]["paired_difference"].items():
            if probe.startswith("few_label_") and difference["mean"] <= 0:
                sentences.append(
                    f"The oracle is not above InfoNCE on {probe_title(probe)} "
                    f"({_points(difference)}): there is no gap to close."
                )
    if SUBJECT in losses and BASELINE in losses:
        for probe, difference in losses[SUBJECT]["paired_difference"].items():
            points = round(100 * difference["mean"], 2)
            direction = "BELOW" if points < 0 else "above" if points > 0 else "level with"
            sentences.append(
                f"{LOSSES[SUBJECT].title} is {direction} InfoNCE on {probe_title(probe)}: "
                f"{_points(difference)}{_doubt(difference, seeds)}."
            )
    if seeds == 1:
        sentences.append("One seed shows no spread: no difference here can be told from chance.")
    return sentences


def _points(difference: Mapping[str, Any]) -> str:
    """A paired difference in percentage points."""
    # Adding 0.0 turns a rounded -0.0 into 0.0.
    mean = f"{round(100 * difference['mean'], 2) + 0.0:+.2f}"
    if difference["spread"] is None:
        return f"{mean} points"
    return f"{mean} ± {100 * difference['spread']:.2f} points"


def _doubt(difference: Mapping[str, Any], seeds: int) -> str:
    """Say when a difference is less than two standard errors of its mean."""
    if difference["spread"] is None or exceeds_noise(difference, seeds):
        return ""
    return ", less than two standard errors"


def exceeds_noise(difference: Mapping[str, Any], seeds: int) -> bool:
    """Whether a paired difference is two standard errors or more; never with a single seed."""
    if difference["spread"] is None:
        return False
    return bool(abs(difference["mean"]) >= 2 * difference["spread"] / math.sqrt(seeds))
