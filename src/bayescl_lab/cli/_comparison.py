"""A comparison with its progress on screen, and its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import EpochBar, console, say, table
from bayescl_lab.cli._folders import Place, Workers
from bayescl_lab.report.images.markdown import accuracy_table, difference_table
from bayescl_lab.report.ranking.table import cell_title, differences_table, figures_table, note
from bayescl_lab.report.titles import data_title
from bayescl_lab.runs.folder import read_json

if TYPE_CHECKING:
    from bayescl_lab.compare.comparison import Comparison

_SHOWN = ("R@20", "NDCG@20", "R@10", "NDCG@10")
"""Metrics on screen; the Markdown file has all."""


def run(
    comparison: Comparison[Any], folder: Path, place: Place, workers: Workers
) -> dict[str, Any]:
    """Make or resume a comparison under a progress bar, and return its result."""
    from bayescl_lab.compare.comparison import compare

    number = workers.number(comparison.shared.torch_device(), len(comparison.runs()))
    with EpochBar(comparison.epochs) as bar, place.interruptible(comparison.kind, folder):
        return compare(
            comparison,
            folder,
            resume=place.resume,
            workers=number,
            progress=lambda name, _, done: bar.update(name, done),
        )


def print_comparison(result: Mapping[str, Any]) -> None:
    """Print accuracies, differences to InfoNCE and the oracle gap closed."""
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
    console().print(table(title, [*head, "s/epoch"], rows))
    title = "Points above InfoNCE, paired by seed: mean ± standard deviation over seeds"
    _print_differences(title, differences.head, differences.rows)


def print_cell(cell: Mapping[str, Any]) -> None:
    """Print the metrics of recommenders, differences to InfoNCE, and remarks."""
    figures, differences = figures_table(cell), differences_table(cell)
    wide = [number for number, name in enumerate(figures.head) if not name or name in _SHOWN]
    head = [figures.head[number] for number in wide]
    rows = [[row[number] for number in wide] for row in _plain(figures.rows)]
    console().print(table(cell_title(cell), head, rows))
    title, *columns = differences.head or [""]
    _print_differences(title, ["", *columns], differences.rows)
    say(*(f"* {remark}" for remark in (note(cell), *cell.get("remarks", []))))


def finish(folder: Path, markdown: str) -> None:
    """Write a comparison's table and page beside its figures, and print its verdict and files."""
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.verdicts import comparison_verdict, trust_of_runs

    page = folder / "report.html"
    write_atomically(folder / "comparison.md", markdown)
    write_atomically(page, report_page([folder]))
    say(
        *comparison_verdict(read_json(folder / "result.json"), trust_of_runs(folder)),
        f"figures: {folder / 'result.json'}",
        f"table: {folder / 'comparison.md'}",
        f"picture: {folder / 'comparison.png'}",
        f"page: {page}",
    )


def _print_differences(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table, if it has rows."""
    if rows:
        console().print(table(title, head, _plain(rows)))


def _plain(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells without Markdown's marks for bold text."""
    return [[cell.replace("**", "") for cell in row] for row in rows]
