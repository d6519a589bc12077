"""Quotations from cells of the ranking table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayescl_lab.report.ranking.differences import paired_differences
from bayescl_lab.report.ranking.table import cell_markdown
from bayescl_lab.runs.folder import read_json


def cell_quote(file: Path) -> str:
    """The tables of a cell."""
    return cell_markdown(read_json(file))


def paired_quote(file: Path, loss: str) -> dict[str, Any]:
    """How far a loss lies above InfoNCE, by metric."""
    cell = read_json(file)
    metrics = next(iter(cell["losses"].values()))["metrics"]
    return {metric: paired_differences(cell, metric)[loss] for metric in metrics}


def best_quote(file: Path) -> dict[str, float]:
    """The highest mean of any loss, by metric."""
    losses = list(read_json(file)["losses"].values())
    return {
        metric: max(entry["metrics"][metric]["mean"] for entry in losses)
        for metric in losses[0]["metrics"]
    }
