"""The tables of a comparison on images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scipy import stats

from bayescl_lab.compare.summary import exceeds_noise
from bayescl_lab.report.tables import Table, bold, mean_text
from bayescl_lab.report.titles import loss_title, measure_title

Result = Mapping[str, Any]
"""What ``compare images`` writes as ``result.json``."""


def accuracy_table(result: Result) -> Table:
    """Every probe of every loss, the paired difference on the first, and the oracle gap closed.

    Returns:
        A row per loss: accuracies in percent, differences in points, each as mean and standard
        deviation over seeds.
    """
    losses, probes = result["summary"]["losses"], probes_of(result)
    few = [probe for probe in probes if probe.startswith("few_label_")]
    head = ["loss", *map(measure_title, probes)]
    rows = [
        [loss_title(name), *(mean_text(entry["probes"][probe], scale=100) for probe in probes)]
        for name, entry in losses.items()
    ]
    if few and any("paired_difference" in entry for entry in losses.values()):
        head.append(f"above InfoNCE, {measure_title(few[0])}")
        for row, entry in zip(rows, losses.values(), strict=True):
            paired = entry.get("paired_difference")
            row.append(points(paired[few[0]]) if paired else "")
    if few and any("gap_closed" in entry for entry in losses.values()):
        head.append("oracle gap closed, " + " / ".join(map(measure_title, few)))
        for row, entry in zip(rows, losses.values(), strict=True):
            shares = [entry["gap_closed"][probe] for probe in few]
            row.append(" / ".join("-" if one is None else f"{100 * one:.0f} %" for one in shares))
    return Table(
        head,
        rows,
        title=f"**Accuracy on the {result['settings']['evaluate_on']} part, in percent,** mean ± "
        f"{result['summary']['spread']}; and the share of the oracle's gap closed, "
        "(loss - InfoNCE) / (oracle - InfoNCE) of the means.",
    )


def difference_table(result: Result) -> Table:
    """Points above InfoNCE by every probe, a row per loss; bold beyond two standard errors."""
    seeds, probes = len(result["summary"]["seeds"]), probes_of(result)
    rows = [
        [
            loss_title(name),
            *(bold(points(paired[one]), exceeds_noise(paired[one], seeds)) for one in probes),
        ]
        for name, entry in result["summary"]["losses"].items()
        if (paired := entry.get("paired_difference"))
    ]
    by_chance = 2 * stats.t.sf(2, seeds - 1) if seeds > 1 else 1.0
    return Table(
        ["loss", *map(measure_title, probes)],
        rows,
        title="**Points above InfoNCE, paired by seed.** Bold: at least two standard errors from "
        f"0, which with {seeds} seeds chance alone does in {100 * by_chance:.0f} of 100 cases.",
    )


def comparison_markdown(result: Result) -> str:
    """The accuracies of a comparison as a Markdown table."""
    return accuracy_table(result).markdown() + "\n"


def probes_of(result: Result) -> list[str]:
    """Every probe of a comparison."""
    return list(next(iter(result["summary"]["losses"].values()))["probes"])


def points(difference: Mapping[str, Any]) -> str:
    """A paired difference in percentage points."""
    return mean_text(difference, "+.2f", scale=100)
