"""Figures of comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bayescl_lab._figures import panels
from bayescl_lab.report.results import headlines, result_title
from bayescl_lab.report.tables import loss_color, loss_title, measure_title
from bayescl_lab.runs.losses import BASELINE
from bayescl_lab.runs.result import Result, Score, is_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def results_figure(results: Sequence[Result]) -> Figure:
    """Plot two measures of every result: seeds, means and baselines."""
    rows = sum(len(result.every) for result in results)
    height = 0.9 + 0.9 * len(results) + 0.22 * rows
    figure, axes = panels(len(results), 2, width=10.5, height=height)
    figure.set_layout_engine("constrained", wspace=0.04)
    panes = [(result, measure) for result in results for measure in headlines(result)]
    for axis, (result, measure) in zip(axes, panes, strict=False):
        scale, form = (100, ".1f") if is_percent(measure) else (1, ".4f")
        scores = {name: row.scores[measure] for name, row in result.every.items()}
        _draw_seeds(axis, scores, scale, form)
        axis.set_title(f"{result_title(result)}: {measure_title(measure)}", fontsize=9)
    return figure


def _draw_seeds(axis: Axes, figures: Mapping[str, Score], scale: float, form: str) -> None:
    """Draw a line per loss or baseline with all seeds and the mean."""
    for row, (name, entry) in enumerate(figures.items()):
        color, mean = loss_color(name), scale * entry.mean
        values = [scale * value for value in entry.values]
        axis.scatter(values, [row] * len(values), s=20, color=color, alpha=0.6)
        axis.plot([mean, mean], [row - 0.3, row + 0.3], color=color, lw=2.5)
        transform = axis.get_yaxis_transform()
        axis.text(1.01, row, f"{mean:{form}}", transform=transform, va="center", fontsize=8)
    if BASELINE in figures:
        level = scale * figures[BASELINE].mean
        axis.axvline(level, color=loss_color(BASELINE), lw=0.8, ls=":", zorder=0)
    _label_rows(axis, [*map(loss_title, figures)])


def _label_rows(axis: Axes, titles: Sequence[str]) -> None:
    """Label the rows of a panel, the first on top."""
    axis.set_yticks(range(len(titles)), titles)
    axis.set_ylim(len(titles) - 0.5, -0.5)
    axis.tick_params(labelsize=8)
    axis.grid(visible=False, axis="y")
