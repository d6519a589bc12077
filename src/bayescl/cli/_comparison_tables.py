"""A comparison as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

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
    settings = result["settings"]
    count = len(result["summary"]["seeds"])
    table = Table(
        title=(
            f"Accuracy in % on the {settings['evaluate_on']} part of "
            f"{data_title(settings['data'])}: mean ± {result['summary']['spread']} (seeds: {count})"
        ),
        title_justify="left",
    )
    table.add_column("loss")
    for probe in probes:
        table.add_column(probe_title(probe), justify="right")
    table.add_column("s/epoch", justify="right")
    for name, entry in losses.items():
        table.add_row(
            LOSSES[name].title,
            *(percent(entry["probes"][probe]) for probe in probes),
            f"{entry['seconds_per_epoch']['mean']:.2f}",
        )
    return table


def _differences(losses: Mapping[str, Any], probes: list[str]) -> Table:
    """Paired differences to InfoNCE, and the share of the oracle's gap closed."""
    few = [probe for probe in probes if probe.startswith("few_label_")]
    with_gap = any("gap_closed" in entry for entry in losses.values())
    table = Table(
        title="Points above InfoNCE, paired by seed: mean ± standard deviation over seeds",
        title_justify="left",
        caption=(
            "gap closed = (loss - InfoNCE) / (oracle - InfoNCE), of the means" if with_gap else None
        ),
        caption_justify="left",
    )
    table.add_column("loss")
    for probe in probes:
        table.add_column(probe_title(probe), justify="right")
    if with_gap:
        for probe in few:
            table.add_column(f"gap closed,\n{probe_title(probe)}", justify="right")
    for name, entry in losses.items():
        if "paired_difference" not in entry:
            continue
        shares = [entry["gap_closed"][probe] for probe in few] if with_gap else []
        table.add_row(
            LOSSES[name].title,
            *(percent(entry["paired_difference"][probe], signed=True) for probe in probes),
            *("no gap" if share is None else f"{100 * share:.0f} %" for share in shares),
        )
    return table
