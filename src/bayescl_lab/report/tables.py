"""Tables and figures over seeds as text, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from bayescl_lab.compare.summary import exceeds_noise, paired_difference
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.losses import BASELINE

Result = Mapping[str, Any]
"""``result.json`` of a comparison, of encoders or recommenders, or a cell of the ranking table."""


@dataclass(frozen=True)
class Table:
    """A table of text; ``**`` around a cell makes it bold, ``*`` italic.

    Attributes:
        head: titles of the columns.
        rows: one cell per column.
        title: a sentence above it.
        note: a sentence below it.
        numeric: whether all columns but the first hold numbers, which are aligned to the right.

    Example:
        >>> print(Table(["loss", "k-NN"], [["InfoNCE", "93.4"]]).markdown())
        | loss | k-NN |
        | --- | --: |
        | InfoNCE | 93.4 |
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    numeric: bool = True

    def markdown(self) -> str:
        """Head and rows as Markdown."""
        rule = ["---"] + ["--:" if self.numeric else "---"] * (len(self.head) - 1)
        lines = (self.head, rule, *self.rows)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def measured(result: Result) -> dict[str, Mapping[str, Any]]:
    """By loss and measure, the mean, the spread and the values over seeds."""
    of_images = "summary" in result
    losses = result["summary"]["losses"] if of_images else result["losses"]
    return {loss: entry["probes" if of_images else "metrics"] for loss, entry in losses.items()}


def paired_differences(result: Result, base: str = BASELINE) -> dict[str, dict[str, Any]]:
    """By loss and measure, how far each loss lies above another, seed by seed.

    ``certain`` says whether the mean is at least two standard errors from 0; None for one seed.
    There are none if ``base`` was not compared.
    """
    entries = measured(result)
    differences: dict[str, dict[str, Any]] = {}
    for loss in entries if base in entries else ():
        for measure, entry in entries[loss].items() if loss != base else ():
            seeds = len(entry["values"])
            paired = paired_difference(entry["values"], entries[base][measure]["values"])
            paired["certain"] = exceeds_noise(paired, seeds) if seeds > 1 else None
            differences.setdefault(loss, {})[measure] = paired
    return differences


def difference_table(result: Result, measures: Sequence[str] | None = None) -> Table:
    """How far every loss lies above InfoNCE; empty for one seed, and without InfoNCE.

    Args:
        result: the comparison.
        measures: the columns; default: all.
    """
    differences = paired_differences(result)
    first: Mapping[str, Any] = next(iter(differences.values()), {})
    seeds = max([len(entry["values"]) for entry in first.values()], default=1)
    if seeds == 1:
        return Table([], [])
    in_points = "summary" in result
    above, form, scale = ("Points above", "+.2f", 100) if in_points else ("Above", "+.4f", 1)
    shown = first if measures is None else measures
    rows = [
        [
            loss_title(loss),
            *(bold(mean_text(own[one], form, scale=scale), own[one]["certain"]) for one in shown),
        ]
        for loss, own in differences.items()
    ]
    by_chance = 2 * stats.t.sf(2, seeds - 1)
    return Table(
        ["loss", *map(measure_title, shown)],
        rows,
        title=f"**{above} InfoNCE, paired by seed.** Bold: at least two standard errors from "
        f"0, which with {seeds} seeds chance alone does in {100 * by_chance:.0f} of 100 cases.",
    )


def mean_text(entry: Mapping[str, Any], form: str = ".1f", *, scale: float = 1.0) -> str:
    """Mean and spread over seeds; only the mean for a single seed.

    Args:
        entry: with ``mean`` and ``spread``.
        form: format of the mean; the spread's is the same without a sign.
        scale: 100 for percent.

    Example:
        >>> mean_text({"mean": 0.123, "spread": 0.04}, "+.1f", scale=100)
        '+12.3 ± 4.0'
    """
    mean = f"{scale * entry['mean']:{form}}"
    if float(mean) == 0:  # a rounded -0.0 has no sign of its own
        mean = f"{0.0:{form}}"
    spread = entry["spread"]
    return mean if spread is None else f"{mean} ± {scale * spread:{form.removeprefix('+')}}"


def bold(text: str, certain: bool | None) -> str:
    """A difference, in bold if it is at least two standard errors from 0."""
    return f"**{text}**" if certain else text


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "seed"), counted(2, "seed")
        ('1 seed', '2 seeds')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def origin(result: Mapping[str, Any], file: str) -> str:
    """The command, hardware and versions behind a benchmark's result, in two paragraphs."""
    hardware, versions = result["hardware"], result["versions"]
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"`{result['command']}` ([figures](results/{file}))\n\n{hardware['cpu']}, "
        f"{hardware['cores']} cores; {packages}; commit {result['commit'][:12]}"
    )
