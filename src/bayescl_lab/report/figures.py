"""Comparisons and trainings as pictures, and a folder of the ranking table's cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab._figures import panels
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.compare.result import Result, needs_labels
from bayescl_lab.compare.summary import Score
from bayescl_lab.report.ranking import (
    MEASURES,
    cell_title,
    printed_figure,
    read_cells,
    tables_markdown,
)
from bayescl_lab.report.tables import (
    counted,
    data_title,
    loss_colour,
    loss_title,
    measure_title,
)
from bayescl_lab.report.verdicts import Metrics
from bayescl_lab.runs.folder import as_json
from bayescl_lab.runs.losses import BASELINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_METRICS = {
    "loss": "loss",
    "ndcg@20": measure_title("ndcg@20"),
}
"""Columns of ``metrics.csv`` that are drawn, with their titles."""


def collect(folder: Path, name: str, cell: Result) -> None:
    """Put a cell into the folder and update ``table.md`` and ``ranking.png`` of all cells."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", as_json(cell.stored()))
    cells = read_cells(folder)
    write_atomically(folder / "table.md", tables_markdown(cells))
    save_figure(cells_figure(cells), folder / "ranking.png", dpi=130)


def comparison_figure(result: Result) -> Figure:
    """Few-label accuracies of a comparison on images, and paired differences to InfoNCE.

    Each dot is a seed; bars and numbers are means. In the last panel, which leaves the oracles out,
    error bars are standard deviations over seeds.
    """
    probes, few = result.measures, result.few or result.measures[-1:]
    # An oracle's difference is so large that it would hide the others'.
    paired = {
        name: differences
        for name, differences in result.differences().items()
        if not needs_labels(name)
    }
    columns = len(few) + bool(paired)
    height = 1.4 + 0.36 * max(len(result.rows), len(probes))
    figure, axes = panels(1, columns, width=1.5 + 3.7 * columns, height=height)
    figure.set_layout_engine("constrained", wspace=0.06)
    for axis, probe in zip(axes, few, strict=False):
        scores = {name: row.scores[probe] for name, row in result.rows.items()}
        _draw_seeds(axis, scores, 100, ".1f")
        axis.set_title(measure_title(probe))
        axis.set_xlabel("accuracy, %")
    if paired:
        _draw_differences(axes[-1], paired, probes)
    figure.suptitle(
        f"{data_title(result.data)}: {result.settings['epochs']} epochs, "
        f"{counted(result.seeds, 'seed')}, scored on the {result.part} part",
        fontsize=11,
    )
    return figure


def cells_figure(cells: Sequence[Result]) -> Figure:
    """Two metrics of every cell: each seed, the mean, baselines, and the paper's values."""
    rows = sum(len(cell.every) for cell in cells)
    height = 0.9 + 0.9 * len(cells) + 0.22 * rows
    figure, axes = panels(len(cells), len(MEASURES), width=10.5, height=height)
    figure.set_layout_engine("constrained", wspace=0.04)
    places = [(cell, metric) for cell in cells for metric in MEASURES]
    marks = []
    for axis, (cell, metric) in zip(axes, places, strict=True):
        _draw_seeds(axis, {name: row.scores[metric] for name, row in cell.every.items()}, 1, ".4f")
        axis.set_title(f"{cell_title(cell)}: {measure_title(metric)}", fontsize=9)
        printed = [printed_figure(cell, name, metric) for name in cell.every]
        if any(printed):
            levels = [float("nan") if value is None else value for value in printed]
            marks = axis.plot(levels, range(len(levels)), "D", ms=6, mfc="none", color="black")
    if marks:
        figure.legend(marks[:1], ["the paper"], loc="outside lower center", fontsize=8)
    return figure


def training_figure(runs: Sequence[tuple[str, Metrics]]) -> Figure | None:
    """The metrics of every epoch by run, if there are any.

    Different losses are not of one scale: values of the loss are drawn if all runs have the same.
    """
    from matplotlib.ticker import MaxNLocator

    losses = [loss for loss, _ in runs]
    several = len(set(losses)) > 1
    known = {name for _, rows in runs for row in rows for name in row}
    shown = [name for name in _METRICS if name in known and not (several and name == "loss")]
    if not shown:
        return None
    columns = min(2, len(shown))
    height = -(-len(shown) // columns)
    figure, axes = panels(height, columns, width=5.2 * columns, height=3.4 * height)
    for axis in axes[len(shown) :]:
        axis.remove()
    for axis, name in zip(axes, shown, strict=False):
        for number, (loss, rows) in enumerate(runs):
            points = [(row["epoch"], row[name]) for row in rows if name in row]
            if points:
                label = f"{'_' * (loss in losses[:number])}{loss_title(loss)}"
                colour = loss_colour(loss)
                axis.plot(*zip(*points, strict=True), color=colour, lw=1.3, marker=".", label=label)
        axis.set_xlabel("epoch")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel(_METRICS[name])
        if several:
            axis.legend(fontsize=8)
    return figure


def _draw_seeds(axis: Axes, figures: Mapping[str, Score], scale: float, form: str) -> None:
    """A line per loss or baseline: every seed and the mean."""
    for row, (name, entry) in enumerate(figures.items()):
        colour, mean = loss_colour(name), scale * entry.mean
        values = [scale * value for value in entry.values]
        axis.scatter(values, [row] * len(values), s=20, color=colour, alpha=0.6)
        axis.plot([mean, mean], [row - 0.3, row + 0.3], color=colour, lw=2.5)
        place = axis.get_yaxis_transform()
        axis.text(1.01, row, f"{mean:{form}}", transform=place, va="center", fontsize=8)
    if BASELINE in figures:
        level = scale * figures[BASELINE].mean
        axis.axvline(level, color=loss_colour(BASELINE), lw=0.8, ls=":", zorder=0)
    _label_rows(axis, [*map(loss_title, figures)])


def _draw_differences(axis: Axes, paired: Mapping[str, Any], probes: Sequence[str]) -> None:
    """Paired differences to InfoNCE of every probe."""
    width = 0.7 / len(paired)
    for place, (name, differences) in enumerate(paired.items()):
        entries = [differences[probe] for probe in probes]
        axis.errorbar(
            [100 * entry.mean for entry in entries],
            [row + (place - (len(paired) - 1) / 2) * width for row in range(len(probes))],
            xerr=[100 * (entry.spread or 0.0) for entry in entries],
            fmt="o",
            ms=4.5,
            capsize=2,
            color=loss_colour(name),
            label=loss_title(name),
        )
    axis.axvline(0, color=loss_colour(BASELINE), lw=0.8, ls=":")
    _label_rows(axis, [*map(measure_title, probes)])
    axis.set_xlabel("paired by seed; oracles left out")
    axis.set_title("points above InfoNCE")
    axis.legend(fontsize=8, loc="best")


def _label_rows(axis: Axes, titles: Sequence[str]) -> None:
    """Name the rows of a panel, the first on top."""
    axis.set_yticks(range(len(titles)), titles)
    axis.set_ylim(len(titles) - 0.5, -0.5)
    axis.tick_params(labelsize=8)
    axis.grid(visible=False, axis="y")
