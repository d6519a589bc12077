"""Comparisons as pictures, and a folder of the ranking table's cells with table and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl.figures import panels
from bayescl_lab._files import save_figure, write_atomically
from bayescl_lab.report.images import probes_of
from bayescl_lab.report.ranking import MEASURES, cell_title, read_cells, tables_markdown, theirs
from bayescl_lab.report.tables import counted
from bayescl_lab.report.titles import data_title, loss_colour, loss_title, measure_title
from bayescl_lab.runs.folder import as_json
from bayescl_lab.runs.losses import BASELINE, LOSSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def collect(folder: Path, name: str, cell: Mapping[str, Any]) -> None:
    """Put a cell into the folder and update ``table.md`` and ``ranking.png`` of all cells."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{name}.json", as_json(cell))
    cells = read_cells(folder)
    write_atomically(folder / "table.md", tables_markdown(cells))
    save_figure(cells_figure(cells), folder / "ranking.png", dpi=130)


def comparison_figure(result: Mapping[str, Any]) -> Figure:
    """A comparison's few-label accuracies, and paired differences to InfoNCE.

    Each dot is a seed; bars and numbers are means. In the last panel, which leaves the oracles out,
    error bars are standard deviations over seeds.

    Args:
        result: what ``compare images`` writes as ``result.json``.
    """
    summary, settings = result["summary"], result["settings"]
    losses: Mapping[str, Any] = summary["losses"]
    probes = [probe for probe in probes_of(result) if probe != "linear_top5"]
    few = [probe for probe in probes if probe.startswith("few_label_")] or probes[-1:]
    # An oracle's difference is so large that it would hide the others'.
    oracles = [name for name, row in LOSSES.items() if row.needs_labels]
    paired = {
        name: entry["paired_difference"]
        for name, entry in losses.items()
        if "paired_difference" in entry and name not in oracles
    }
    columns = len(few) + bool(paired)
    height = 1.4 + 0.36 * max(len(losses), len(probes))
    figure, axes = panels(1, columns, width=1.5 + 3.7 * columns, height=height)
    figure.set_layout_engine("constrained", wspace=0.06)
    for axis, probe in zip(axes, few, strict=False):
        figures = {name: entry["probes"][probe] for name, entry in losses.items()}
        _draw_seeds(axis, figures, [], scale=100, form=".1f")
        axis.set_title(measure_title(probe))
        axis.set_xlabel("accuracy, %")
    if paired:
        _draw_differences(axes[-1], paired, probes)
    figure.suptitle(
        f"{data_title(settings['data'])}: {settings['epochs']} epochs, "
        f"{counted(len(summary['seeds']), 'seed')}, scored on the {settings['evaluate_on']} part",
        fontsize=11,
    )
    return figure


def cells_figure(cells: Sequence[Mapping[str, Any]]) -> Figure:
    """Two metrics of every cell: each seed, the mean, baselines, and the paper's values."""
    from matplotlib.lines import Line2D

    rows = sum(len({**cell["losses"], **cell["baselines"]}) for cell in cells)
    height = 0.9 + 0.9 * len(cells) + 0.22 * rows
    figure, axes = panels(len(cells), len(MEASURES), width=10.5, height=height)
    figure.set_layout_engine("constrained", wspace=0.04)
    places = [(cell, metric) for cell in cells for metric in MEASURES]
    for axis, (cell, metric) in zip(axes, places, strict=True):
        entries = {**cell["losses"], **cell["baselines"]}
        printed = [theirs(cell, name, metric) for name in cell["losses"]]
        figures = {name: entry["metrics"][metric] for name, entry in entries.items()}
        _draw_seeds(axis, figures, printed, scale=1, form=".4f")
        axis.set_title(f"{cell_title(cell)}: {measure_title(metric)}", fontsize=9)
    if any(theirs(cell, loss, metric) for cell, metric in places for loss in cell["losses"]):
        paper = Line2D([], [], color="black", marker="D", mfc="none", ls="", label="the paper")
        figure.legend(handles=[paper], loc="outside lower center", fontsize=8)
    return figure


def _draw_seeds(
    axis: Axes,
    figures: Mapping[str, Mapping[str, Any]],
    printed: Sequence[float | None],
    *,
    scale: float,
    form: str,
) -> None:
    """A line per loss or baseline: every seed, the mean, and what the paper prints."""
    for row, (name, entry) in enumerate(figures.items()):
        colour, mean = loss_colour(name), scale * entry["mean"]
        values = [scale * value for value in entry["values"]]
        axis.scatter(values, [row] * len(values), s=20, color=colour, alpha=0.6)
        axis.plot([mean, mean], [row - 0.3, row + 0.3], color=colour, lw=2.5)
        place = axis.get_yaxis_transform()
        axis.text(1.01, row, f"{mean:{form}}", transform=place, va="center", fontsize=8)
    for row, value in enumerate(printed):
        if value is not None:
            axis.plot([value], [row], "D", ms=6, mfc="none", color="black")
    if BASELINE in figures:
        level = scale * figures[BASELINE]["mean"]
        axis.axvline(level, color=loss_colour(BASELINE), lw=0.8, ls=":", zorder=0)
    _label_rows(axis, [*map(loss_title, figures)])


def _draw_differences(
    axis: Axes, paired: Mapping[str, Mapping[str, Any]], probes: Sequence[str]
) -> None:
    """Paired differences to InfoNCE of every probe."""
    width = 0.7 / len(paired)
    for place, (name, differences) in enumerate(paired.items()):
        entries = [differences[probe] for probe in probes]
        axis.errorbar(
            [100 * entry["mean"] for entry in entries],
            [row + (place - (len(paired) - 1) / 2) * width for row in range(len(probes))],
            xerr=[100 * (entry["spread"] or 0.0) for entry in entries],
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
