"""Sentences on what the figures of a comparison support and what they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bayescl_lab.compare.images.summary import exceeds_noise
from bayescl_lab.report.images.markdown import points
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.losses import BASELINE, ORACLE, SUBJECT
from bayescl_lab.runs.statistics import paired_difference


def findings(result: Mapping[str, Any]) -> list[str]:
    """Compare every loss with InfoNCE, the gap closed, and the losses with each other.

    Only a difference of two standard errors or more, paired by seed, counts as one.

    Args:
        result: what ``compare images`` writes as ``result.json``, with InfoNCE among the losses.
    """
    losses, seeds = result["summary"]["losses"], len(result["summary"]["seeds"])
    told = [name for name in losses if name not in (BASELINE, ORACLE)]

    def on(wanted: Callable[[Mapping[str, Any], bool], bool]) -> str:
        """Losses with the probes on which their difference meets a condition."""
        parts = []
        for name in told:
            paired = losses[name]["paired_difference"]
            probes = [p for p in paired if wanted(paired[p], exceeds_noise(paired[p], seeds))]
            parts += [f"{loss_title(name)} on {_listed(probes)}"] if probes else []
        return "; ".join(parts) or "none"

    above = on(lambda difference, certain: certain and difference["mean"] > 0)
    below = on(lambda difference, certain: certain and difference["mean"] < 0)
    said = [
        f"Two standard errors or more above InfoNCE: {above}.",
        f"Two standard errors or more below InfoNCE: {below}.",
        f"Less than that from InfoNCE: {on(lambda _, certain: not certain)}.",
    ]
    if SUBJECT in losses:
        said += [_against(losses, rival, seeds) for rival in told if rival != SUBJECT]
    if ORACLE in losses:
        said.append(_gap(losses, told))
        oracle = losses[ORACLE]
        doubtful = [
            probe
            for probe in oracle["gap_closed"]
            if not exceeds_noise(oracle["paired_difference"][probe], seeds)
        ]
        if doubtful:
            said.append(
                f"The oracle itself is not two standard errors above InfoNCE on "
                f"{_listed(doubtful)}: there the share of its gap closed means nothing."
            )
    return said


def _against(losses: Mapping[str, Any], rival: str, seeds: int) -> str:
    """The Bayesian loss against another one, paired by seed."""
    parts = []
    for probe, entry in losses[SUBJECT]["probes"].items():
        difference = paired_difference(entry["values"], losses[rival]["probes"][probe]["values"])
        doubt = "" if exceeds_noise(difference, seeds) else " (less than that)"
        parts.append(f"{points(difference)} on {measure_title(probe)}{doubt}")
    return f"{loss_title(SUBJECT)} less {loss_title(rival)}, in points: {', '.join(parts)}."


def _gap(losses: Mapping[str, Any], told: list[str]) -> str:
    """The largest share of the oracle's gain that another loss recovers."""
    shares = {
        (name, probe): share
        for name in told
        for probe, share in losses[name]["gap_closed"].items()
        if share is not None
    }
    if not shares:
        return "The oracle leaves no gap to close on few labels."
    name, probe = max(shares, key=lambda key: shares[key])
    return (
        f"Of the oracle's gap on few labels {loss_title(name)} closes most: "
        f"{100 * shares[name, probe]:.0f} % on {measure_title(probe)}, where the oracle is "
        f"{points(losses[ORACLE]['paired_difference'][probe])} points above InfoNCE."
    )


def _listed(probes: Iterable[str]) -> str:
    """Probes by their titles."""
    return ", ".join(map(measure_title, probes))
