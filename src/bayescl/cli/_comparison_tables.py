"""A comparison as tables."""

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
    accuracies, differences = accuracy_table(result), difference_table(result)
    seconds = [f"{one['seconds_per_epoch']['mean']:.2f}" for one in summary["losses"].values()]
    screen.print(
        table(
            f"Accuracy in % on the {settings['evaluate_on']} part of "
            f"{data_title(settings['data'])}: mean ± {summary['spread']} "
            f"(seeds: {len(summary['seeds'])})",
            (*accuracies.head, "s/epoch"),
            [(*row, one) for row, one in zip(accuracies.rows, seconds, strict=True)],
            caption="gap closed = (loss - InfoNCE) / (oracle - InfoNCE), of the means",
        )
    )
    if differences.rows:
        rows = [[cell.replace("**", "") for cell in row] for row in differences.rows]
        screen.print(table("Points above InfoNCE, paired by seed", differences.head, rows))
    for remark in summary["remarks"]:
        screen.print(f"* {remark}")
