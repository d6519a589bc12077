"""A comparison as a Markdown table, for a page that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl.experiments.images.summary import exceeds_noise, percent
from bayescl.runs.losses import LOSSES
from bayescl.vision.probes import probe_title


def comparison_markdown(result: Mapping[str, Any]) -> str:
    """Every probe of every loss, the paired difference on the first, and the oracle gap closed.

    Args:
        result: what ``compare`` writes as ``result.json``.

    Returns:
        A table with one row per loss: accuracies in percent, differences in points, each as mean
        and standard deviation over seeds.
    """
    losses = result["summary"]["losses"]
    probes = list(next(iter(losses.values()))["probes"])
    few = [probe for probe in probes if probe.startswith("few_label_")]
    head = [
        "loss",
        *(probe_title(probe) for probe in probes),
        f"above InfoNCE, {probe_title(few[0])}",
        "oracle gap closed, " + " / ".join(probe_title(probe) for probe in few),
    ]
    lines = [_row(head), _row(["---", *["--:"] * (len(head) - 1)])]
    for name, entry in losses.items():
        paired, closed = entry.get("paired_difference"), entry.get("gap_closed")
        shares = [closed[probe] for probe in few] if closed else []
        lines.append(
            _row(
                [
                    LOSSES[name].title,
                    *(percent(entry["probes"][probe]) for probe in probes),
                    percent(paired[few[0]], digits=2, signed=True) if paired else "",
                    " / ".join("-" if one is None else f"{100 * one:.0f} %" for one in shares),
                ]
            )
        )
    return "\n".join(lines) + "\n"


def difference_markdown(result: Mapping[str, Any]) -> str:
    """Points above InfoNCE by every probe; bold where they exceed two standard errors.

    Args:
        result: what ``compare`` writes as ``result.json``.

    Returns:
        A table with one row per loss but InfoNCE.
    """
    losses = result["summary"]["losses"]
    seeds = len(result["summary"]["seeds"])
    probes = list(next(iter(losses.values()))["probes"])
    lines = [
        _row(["loss", *(probe_title(probe) for probe in probes)]),
        _row(["---", *["--:"] * len(probes)]),
    ]
    for name, entry in losses.items():
        paired = entry.get("paired_difference")
        if paired is None:
            continue
        cells = [percent(paired[probe], digits=2, signed=True) for probe in probes]
        lines.append(
            _row(
                [
                    LOSSES[name].title,
                    *(
                        f"**{cell}**" if exceeds_noise(paired[probe], seeds) else cell
                        for cell, probe in zip(cells, probes, strict=True)
                    ),
                ]
            )
        )
    return "\n".join(lines) + "\n"


def _row(cells: list[str]) -> str:
    """One line of a table."""
    return "| " + " | ".join(cells) + " |"
