"""A folder of cells of the ranking table, and the table and figure made from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayescl_lab._files import write_atomically
from bayescl_lab.report.ranking.differences import data_name
from bayescl_lab.report.ranking.figure import draw_cells
from bayescl_lab.report.ranking.table import tables_markdown
from bayescl_lab.runs.folder import as_json, read_json

ORDER = ("ml-100k", "ml-1m", "yahoo-r3", "yelp2018", "gowalla")
"""Data sets in the paper's order; others follow."""


def collect(folder: Path, name: str, cell: Mapping[str, Any]) -> None:
    """Put a cell into the folder and update the table and the figure of all cells."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", as_json(cell))
    refresh(folder)


def refresh(folder: Path) -> None:
    """Make ``table.md`` and ``ranking.png`` from the cells in the folder."""
    cells = read_cells(folder)
    write_atomically(folder / "table.md", tables_markdown(cells))
    draw_cells(cells, folder / "ranking.png")


def read_cells(folder: Path) -> list[dict[str, Any]]:
    """The cells in a folder, in the order of the table."""
    cells = [read_json(file) for file in sorted(folder.glob("*.json"))]

    def place(cell: Mapping[str, Any]) -> tuple[int, str, bool, str]:
        data = data_name(cell)
        number = ORDER.index(data) if data in ORDER else len(ORDER)
        return number, cell["data"], cell["encoder"] != "mf", cell["encoder"]

    return sorted((cell for cell in cells if {"losses", "baselines"} <= cell.keys()), key=place)
