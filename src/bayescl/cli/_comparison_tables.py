"""A comparison as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from bayescl.cli._console import table
from bayescl.experiments.images.summary import percent
from bayescl.report.titles import data_title
from bayescl.runs.losses import LOSSES
from bayescl.vision.probes import probe_title


def print_comparison(screen: Console, result: Mapping[str, Any]) -> None:
    """Print accuracies, differences to InfoNCE, the oracle gap closed, and remarks."""
    summary = result["summary"]
    losses = summary["losses"]
    probes = list(next(iter(losses.values()))["probes"])
    screen.print(_accuracies(result, losses, probes))
    if any("paired_difference" in entry for entry in losses.values()):
        screen.print(_differences(losses, probes))
    for remark in summary["remarks"]:
        screen.print(f"* {remark}")


def _accuracies(result: Mapping[str, Any], losses: Mapping[str, Any], probes: list[str]) -> Table:
    """Accuracy by loss and probe."""
    settings, summary = result["settings"], result["summary"]
    title = (
        f"Accuracy in % on the {settings['evaluate_on']} part of {data_title(settings['data'])}: "
        f"mean ± {summary['spread']} (seeds: {len(summary['seeds'])})"
    )
    rows = [
        (
            LOSSES[name].title,
            *(percent(entry["probes"][probe]) for probe in probes),
            f"{entry['seconds_per_epoch']['mean']:.2f}",
        )
        for name, entry in losses.items()
    ]
    return table(title, ("loss", *map(probe_title, probes), "s/epoch"), rows)


def _differences(losses: Mapping[str, Any], probes: list[str]) -> Table:
    """Paired differences to InfoNCE, and the share of the oracle's gap closed."""
    with_gap = any("gap_closed" in entry for entry in losses.values())
    few = [probe for probe in probes if with_gap and probe.startswith("few_label_")]
    rows = []
    for name, entry in losses.items():
        if "paired_difference" in entry:
            shares = [entry["gap_closed"][probe] for probe in few]
            rows.append(
                (
                    LOSSES[name].title,
                    *(percent(entry["paired_difference"][probe], signed=True) for probe in probes),
                    *("no gap" if share is None else f"{100 * share:.0f} %" for share in shares),
                )
            )
    gaps = [f"gap closed,\n{probe_title(probe)}" for probe in few]
    return table(
        "Points above InfoNCE, paired by seed: mean ± standard deviation over seeds",
        ("loss", *map(probe_title, probes), *gaps),
        rows,
        caption="gap closed = (loss - InfoNCE) / (oracle - InfoNCE), of the means" if few else None,
    )
