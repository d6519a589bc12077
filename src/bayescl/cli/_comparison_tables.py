"""A comparison as tables on screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console

from bayescl.cli._console import table
from bayescl.report.images.markdown import accuracy_table, difference_table
from bayescl.report.titles import data_title


def print_comparison(screen: Console, result: Mapping[str, Any]) -> None:
    """Print accuracies, differences to InfoNCE, the oracle gap closed, and remarks."""
    settings, summary = result["settings"], result["summary"]
    losses = summary["losses"].values()
    accuracies, differences = accuracy_table(result), difference_table(result)
    title = (
        f"Accuracy in % on the {settings['evaluate_on']} part of {data_title(settings['data'])}: "
        f"mean ± {summary['spread']} (seeds: {len(summary['seeds'])})"
    )
    seconds = [f"{entry['seconds_per_epoch']['mean']:.2f}" for entry in losses]
    rows = [[*row, time] for row, time in zip(accuracies.rows, seconds, strict=True)]
    head = [column.replace("oracle gap closed, ", "gap closed,\n") for column in accuracies.head]
    screen.print(table(title, [*head, "s/epoch"], rows))
    if differences.rows:
        rows = [[cell.replace("**", "") for cell in row] for row in differences.rows]
        screen.print(
            table(
                "Points above InfoNCE, paired by seed: mean ± standard deviation over seeds",
                differences.head,
                rows,
            )
        )
    for remark in summary["remarks"]:
        screen.print(f"* {remark}")
