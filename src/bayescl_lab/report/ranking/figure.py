"""The ranking table as one picture, and a folder of its cells with table and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl.figures import NEUTRAL, panels
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.report.ranking.table import cell_title, read_cells, tables_markdown, theirs
from bayescl_lab.report.titles import loss_title, measure_title
from bayescl_lab.runs.folder import as_json

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = ("recall@20", "ndcg@20")
_OURS, _THEIRS = "#c0392b", "#2a7fb8"


def collect(folder: Path, name: str, cell: Mapping[str, Any]) -> None:
    """Put a cell into the folder and update ``table.md`` and ``ranking.png`` of all cells."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", as_json(cell))
    cells = read_cells(folder)
    write_atomically(folder / "table.md", tables_markdown(cells))
    draw_cells(cells, folder / "ranking.png")


def draw_cells(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the figure of the cells as a PNG file; replaced if it is there."""
    save_figure(cells_figure(cells), path, dpi=130)


def cells_figure(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Two metrics of every cell: each seed, the mean, baselines, and the paper's values."""
    from matplotlib.lines import Line2D

    rows = max(1, len(cells))
    figure, axes = panels(rows, len(_SHOWN), width=10.5, height=0.9 + 2.7 * rows)
    places = [(cell, metric) for cell in cells for metric in _SHOWN]
    for axis, (cell, metric) in zip(axes, places, strict=False):
        _draw(axis, cell, metric)
    marks = [
        Line2D([], [], color=_OURS, marker="o", lw=2.5, label="ours: seeds and mean"),
        Line2D([], [], color=NEUTRAL, lw=2.5, label="baselines"),
    ]
    if any(theirs(cell, loss, metric) for cell, metric in places for loss in cell["losses"]):
        paper = Line2D([], [], color=_THEIRS, marker="D", mfc="none", ls="", label="the paper")
        marks.insert(1, paper)
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _draw(axis: Axes, cell: Mapping[str, Any], metric: str) -> None:
    """One metric of one cell, a line per loss and baseline."""
    rows = {**cell["losses"], **cell["baselines"]}
    for row, (name, entry) in enumerate(rows.items()):
        figures, colour = entry["metrics"][metric], NEUTRAL
        if name in cell["losses"]:
            colour, printed = _OURS, theirs(cell, name, metric)
            values = figures["values"]
            axis.scatter(values, [row] * len(values), s=16, color=colour, alpha=0.5)
            if printed is not None:
                axis.plot([printed], [row], "D", ms=6, mfc="none", color=_THEIRS)
        axis.plot([figures["mean"]] * 2, [row - 0.3, row + 0.3], color=colour, lw=2.5)
    axis.set_yticks(range(len(rows)), [*map(loss_title, rows)])
    axis.invert_yaxis()
    axis.set_title(f"{cell_title(cell)}: {measure_title(metric)}", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(visible=False, axis="y")
