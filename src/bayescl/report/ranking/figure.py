"""The ranking table as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from bayescl._figures import NEUTRAL, panels, save_figure
from bayescl.experiments.ranking.paper import paper_figure
from bayescl.experiments.ranking.published import has_lightgcn_split
from bayescl.report.ranking.table import cell_title, metric_title
from bayescl.runs.losses import LOSSES
from bayescl.runs.ranking import baselines

_SHOWN = ("recall@20", "ndcg@20")
_OURS, _THEIRS, _BASELINE = "#c0392b", "#2a7fb8", NEUTRAL


def draw_cells(cells: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw two metrics of every cell: each seed, the mean, baselines, and the paper's values.

    Args:
        cells: what ``reproduce_cell`` returns.
        path: the PNG file to write; replaced if it is there.
    """
    rows = max(1, len(cells))
    figure, axes = panels(rows, len(_SHOWN), width=10.5, height=0.9 + 2.7 * rows)
    shown = [(cell, metric) for cell in cells for metric in _SHOWN]
    for axis, (cell, metric) in zip(axes, shown, strict=False):
        _draw(axis, cell, metric)
    marks = [
        Line2D([], [], color=_OURS, marker="o", lw=2.5, label="ours: seeds and mean"),
        Line2D([], [], color=_THEIRS, marker="D", mfc="none", ls="", label="the paper"),
        Line2D([], [], color=_BASELINE, lw=2.5, label="baselines"),
    ]
    figure.legend(handles=marks, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    save_figure(figure, path, dpi=130)


def _draw(axis: Any, cell: Mapping[str, Any], metric: str) -> None:
    """One metric of one cell, a line per loss and baseline."""
    data = str(cell["data"]).partition(",")[0]
    titles = []
    for loss, entry in cell["losses"].items():
        row = len(titles)
        titles.append(LOSSES[loss].title)
        figures = entry["metrics"][metric]
        axis.scatter(
            figures["values"], [row] * len(figures["values"]), s=16, color=_OURS, alpha=0.5
        )
        axis.plot([figures["mean"]] * 2, [row - 0.3, row + 0.3], color=_OURS, lw=2.5)
        theirs = paper_figure(data, cell["encoder"], loss, metric)
        if theirs is not None and not has_lightgcn_split(cell["data"]):
            axis.plot([theirs], [row], "D", ms=6, mfc="none", color=_THEIRS)
    for name, entry in cell["baselines"].items():
        row = len(titles)
        titles.append(baselines.TITLES[name])
        mean = entry["metrics"][metric]["mean"]
        axis.plot([mean] * 2, [row - 0.3, row + 0.3], color=_BASELINE, lw=2.5)
    axis.set_yticks(range(len(titles)), titles)
    axis.invert_yaxis()
    axis.set_title(f"{cell_title(cell)}: {metric_title(metric)}", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.grid(visible=False, axis="y")
