"""A comparison as tables on screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bayescl_lab._files import write_atomically
from bayescl_lab.cli._console import table
from bayescl_lab.report.images.markdown import accuracy_table, difference_table
from bayescl_lab.report.ranking.table import cell_title, differences_table, figures_table, note
from bayescl_lab.report.titles import data_title
from bayescl_lab.runs.folder import read_json

_SHOWN = ("R@20", "NDCG@20", "R@10", "NDCG@10")
"""Metrics on screen; the Markdown file has all."""


def print_comparison(screen: Console, result: Mapping[str, Any]) -> None:
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
    screen.print(table(title, [*head, "s/epoch"], rows))
    if differences.rows:
        screen.print(
            table(
                "Points above InfoNCE, paired by seed: mean ± standard deviation over seeds",
                differences.head,
                _plain(differences.rows),
            )
        )


def print_cell(screen: Console, cell: Mapping[str, Any]) -> None:
    """Print the metrics of recommenders, differences to InfoNCE, and remarks."""
    figures, differences = figures_table(cell), differences_table(cell)
    wide = [number for number, name in enumerate(figures.head) if not name or name in _SHOWN]
    head = [figures.head[number] for number in wide]
    rows = [[row[number] for number in wide] for row in _plain(figures.rows)]
    screen.print(table(cell_title(cell), head, rows))
    if differences.rows:
        screen.print(
            table(differences.head[0], ["", *differences.head[1:]], _plain(differences.rows))
        )
    for remark in (note(cell), *cell.get("remarks", [])):
        screen.print(f"* {remark}", soft_wrap=True, markup=False)


def write_and_name_files(screen: Console, folder: Path, markdown: str) -> None:
    """Write a comparison's table and page beside its figures, and print its verdict and files."""
    from bayescl_lab.report.html import report_page
    from bayescl_lab.report.verdicts import comparison_verdict, trust_of_runs

    page = folder / "report.html"
    write_atomically(folder / "comparison.md", markdown)
    write_atomically(page, report_page([folder]))
    for sentence in comparison_verdict(read_json(folder / "result.json"), trust_of_runs(folder)):
        screen.print(sentence, soft_wrap=True, markup=False)
    screen.print(
        f"figures: {folder / 'result.json'}\ntable: {folder / 'comparison.md'}\n"
        f"picture: {folder / 'comparison.png'}\npage: {page}",
        soft_wrap=True,
    )


def _plain(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Cells without Markdown's marks for bold text."""
    return [[cell.replace("**", "") for cell in row] for row in rows]
