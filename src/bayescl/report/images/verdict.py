"""What the figures of a comparison support, and what they do not, in sentences made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.experiments.images.summary import exceeds_noise, mean_and_spread, percent
from bayescl.runs.losses import BASELINE, LOSSES, ORACLE, SUBJECT
from bayescl.vision.probes import probe_title


def verdict(result: Mapping[str, Any]) -> list[str]:
    """Sentences on every loss against InfoNCE, on the gap closed, and on the losses' rivals.

    Only a difference of two standard errors or more, paired by seed, counts as one.

    Args:
        result: what ``compare`` writes as ``result.json``, with InfoNCE among the losses.
    """
    losses = result["summary"]["losses"]
    seeds = len(result["summary"]["seeds"])
    told = [name for name in losses if name not in (BASELINE, ORACLE)]
    said = []
    for direction, sign in (("above", 1), ("below", -1)):
        parts = [
            f"{LOSSES[name].title} on {_listed(probes)}"
            for name in told
            if (probes := _beyond_noise(losses[name], seeds, sign))
        ]
        said.append(
            f"Two standard errors or more {direction} InfoNCE: {'; '.join(parts) or 'none'}."
        )
    unclear = [
        f"{LOSSES[name].title} on {_listed(probes)}"
        for name in told
        if (
            probes := [
                probe
                for probe, difference in losses[name]["paired_difference"].items()
                if not exceeds_noise(difference, seeds)
            ]
        )
    ]
    said.append(f"Less than that from InfoNCE: {'; '.join(unclear) or 'none'}.")
    if SUBJECT in losses:
        said += [
            _against(losses, rival, seeds) for rival in told if rival not in (SUBJECT, BASELINE)
        ]
    if ORACLE in losses:
        said.append(_gap(losses, told))
        doubtful = [
            probe
            for probe in losses[ORACLE]["gap_closed"]
            if not exceeds_noise(losses[ORACLE]["paired_difference"][probe], seeds)
        ]
        if doubtful:
            said.append(
                f"The oracle itself is not two standard errors above InfoNCE on "
                f"{_listed(doubtful)}: there the share of its gap closed means nothing."
            )
    return said


def _beyond_noise(entry: Mapping[str, Any], seeds: int, sign: int) -> list[str]:
    """Probes on which a loss is two standard errors above (sign 1) or below InfoNCE."""
    return [
        probe
        for probe, difference in entry["paired_difference"].items()
        if sign * difference["mean"] > 0 and exceeds_noise(difference, seeds)
    ]


def _against(losses: Mapping[str, Any], rival: str, seeds: int) -> str:
    """The Bayesian loss against another one, paired by seed."""
    parts = []
    for probe, entry in losses[SUBJECT]["probes"].items():
        values = zip(entry["values"], losses[rival]["probes"][probe]["values"], strict=True)
        difference = mean_and_spread([ours - theirs for ours, theirs in values])
        doubt = "" if exceeds_noise(difference, seeds) else " (less than that)"
        parts.append(f"{percent(difference, digits=2, signed=True)} on {probe_title(probe)}{doubt}")
    return f"{LOSSES[SUBJECT].title} less {LOSSES[rival].title}, in points: {', '.join(parts)}."


def _gap(losses: Mapping[str, Any], told: list[str]) -> str:
    """How much of what the oracle gains the other losses recover at best."""
    shares = {
        (name, probe): share
        for name in told
        for probe, share in losses[name]["gap_closed"].items()
        if share is not None
    }
    if not shares:
        return "The oracle leaves no gap to close on few labels."
    name, probe = max(shares, key=lambda key: shares[key])
    oracle = losses[ORACLE]["paired_difference"][probe]
    return (
        f"Of the oracle's gap on few labels {LOSSES[name].title} closes most: "
        f"{100 * shares[name, probe]:.0f} % on {probe_title(probe)}, where the oracle is "
        f"{percent(oracle, digits=2, signed=True)} points above InfoNCE."
    )


def _listed(probes: list[str]) -> str:
    """Probes by their titles."""
    return ", ".join(probe_title(probe) for probe in probes)
