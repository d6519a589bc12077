"""A comparison as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl.figures import panels
from bayescl_lab._files import save_figure
from bayescl_lab.report.images.markdown import probes_of
from bayescl_lab.report.tables import counted
from bayescl_lab.report.titles import data_title, loss_colour, loss_title, measure_title
from bayescl_lab.runs.losses import BASELINE, LOSSES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_comparison(result: Mapping[str, Any], path: Path) -> None:
    """Write the figure of a comparison as a PNG file; replaced if it is there."""
    save_figure(comparison_figure(result), path, dpi=150)


def comparison_figure(result: Mapping[str, Any]) -> Figure:
    """A comparison's few-label accuracies, and paired differences to InfoNCE.

    Each dot is a seed, and thin lines join the dots of one seed; bars and figures are means. In
    the last panel, which leaves the oracle out, error bars are standard deviations over seeds.

    Args:
        result: what :func:`~bayescl_lab.compare.images.compare_images` returns.
    """
    summary, settings = result["summary"], result["settings"]
    losses: Mapping[str, Any] = summary["losses"]
    probes = [probe for probe in probes_of(result) if probe != "linear_top5"]
    few = [probe for probe in probes if probe.startswith("few_label_")] or probes[-1:]
    # An oracle's difference is so large that it would hide the others'.
    oracles = [name for name, row in LOSSES.items() if row.needs_labels]
    paired = [
        name for name in losses if "paired_difference" in losses[name] and name not in oracles
    ]
    columns = len(few) + bool(paired)
    figure, axes = panels(1, columns, width=1.5 + 3.7 * columns, height=4.4)
    for axis in axes:
        axis.grid(visible=False)
    for axis, probe in zip(axes, few, strict=False):
        _draw_seeds(axis, losses, probe)
    if paired:
        _draw_differences(axes[-1], losses, paired, probes)
    figure.suptitle(
        f"{data_title(settings['data'])}: {settings['epochs']} epochs, "
        f"{counted(len(summary['seeds']), 'seed')}, scored on the {settings['evaluate_on']} part",
        fontsize=11,
    )
    return figure


def _draw_seeds(axis: Axes, losses: Mapping[str, Any], probe: str) -> None:
    """Accuracy of every run by loss, with means."""
    names = list(losses)
    per_loss = [losses[name]["probes"][probe] for name in names]
    for accuracies in zip(*(entry["values"] for entry in per_loss), strict=True):
        axis.plot(range(len(names)), [100 * a for a in accuracies], color="#c9ced6", lw=0.8)
    for column, (name, entry) in enumerate(zip(names, per_loss, strict=True)):
        points = [100 * value for value in entry["values"]]
        colour, mean = loss_colour(name), 100 * entry["mean"]
        axis.scatter([column] * len(points), points, s=22, color=colour, alpha=0.75, zorder=2)
        axis.plot([column - 0.3, column + 0.3], [mean, mean], color=colour, lw=2.5, zorder=3)
        axis.annotate(
            f"{mean:.1f}",
            (column, max(points)),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9.5,
            fontweight="bold",
            color=colour,
        )
    if BASELINE in names:
        level = 100 * losses[BASELINE]["probes"][probe]["mean"]
        axis.axhline(level, color=loss_colour(BASELINE), lw=0.8, ls=":", zorder=0)
    axis.set_xticks(range(len(names)), [*map(loss_title, names)], rotation=25, ha="right")
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.margins(y=0.12)
    axis.set_title(measure_title(probe), fontsize=11)
    axis.set_ylabel("accuracy, %")


def _draw_differences(
    axis: Axes, losses: Mapping[str, Any], names: list[str], probes: list[str]
) -> None:
    """Paired differences to InfoNCE of every probe."""
    width = 0.7 / len(names)
    for place, name in enumerate(names):
        entries = [losses[name]["paired_difference"][probe] for probe in probes]
        axis.errorbar(
            [100 * entry["mean"] for entry in entries],
            [row + (place - (len(names) - 1) / 2) * width for row in range(len(probes))],
            xerr=[100 * (entry["spread"] or 0.0) for entry in entries],
            fmt="o",
            ms=4.5,
            capsize=2,
            color=loss_colour(name),
            label=loss_title(name),
        )
    axis.axvline(0, color=loss_colour(BASELINE), lw=0.8, ls=":")
    axis.set_yticks(range(len(probes)), [*map(measure_title, probes)])
    axis.invert_yaxis()
    axis.set_xlabel("points above InfoNCE, paired by seed")
    axis.set_title("difference to InfoNCE, oracle left out", fontsize=11)
    axis.legend(fontsize=8, loc="best")
