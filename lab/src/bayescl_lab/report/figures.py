"""Figures of comparisons, and the folder of the ranking table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayescl_lab._figures import panels
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.report.results import (
    headlines,
    printed_figure,
    read_results,
    result_title,
    results_markdown,
)
from bayescl_lab.report.tables import loss_color, loss_title, measure_title
from bayescl_lab.runs.folder import write_json
from bayescl_lab.runs.losses import BASELINE
from bayescl_lab.runs.result import Result, Score, is_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def collect(folder: Path, name: str, result: Result) -> None:
    """Write a result to the folder, and update ``table.md`` and ``ranking.png``."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", result.stored())
    results = read_results(folder)
    write_atomically(folder / "table.md", results_markdown(results))
    save_figure(results_figure(results), folder / "ranking.png", dpi=130)


def results_figure(results: Sequence[Result]) -> Figure:
    """Plot two measures of every result: seeds, means, baselines, and the paper's values."""
    rows = sum(len(result.every) for result in results)
    height = 0.9 + 0.9 * len(results) + 0.22 * rows
    figure, axes = panels(len(results), 2, width=10.5, height=height)
    figure.set_layout_engine("constrained", wspace=0.04)
    places = [(result, measure) for result in results for measure in headlines(result)]
    marks = []
    for axis, (result, measure) in zip(axes, places, strict=False):
        scale, form = (100, ".1f") if is_percent(measure) else (1, ".4f")
        scores = {name: row.scores[measure] for name, row in result.every.items()}
        _draw_seeds(axis, scores, scale, form)
        axis.set_title(f"{result_title(result)}: {measure_title(measure)}", fontsize=9)
        printed = [printed_figure(result, name, measure) for name in scores]
        if any(printed):
            levels = [float("nan") if one is None else one.value for one in printed]
            marks = axis.plot(levels, range(len(levels)), "D", ms=6, mfc="none", color="black")
    if marks:
        figure.legend(marks[:1], ["the paper"], loc="outside lower center", fontsize=8)
    return figure


def _draw_seeds(axis: Axes, figures: Mapping[str, Score], scale: float, form: str) -> None:
    """Draw a line per loss or baseline with all seeds and the mean."""
    for row, (name, entry) in enumerate(figures.items()):
        color, mean = loss_color(name), scale * entry.mean
        values = [scale * value for value in entry.values]
        axis.scatter(values, [row] * len(values), s=20, color=color, alpha=0.6)
        axis.plot([mean, mean], [row - 0.3, row + 0.3], color=color, lw=2.5)
        place = axis.get_yaxis_transform()
        axis.text(1.01, row, f"{mean:{form}}", transform=place, va="center", fontsize=8)
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
