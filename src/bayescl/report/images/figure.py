"""A comparison as one picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayescl._figures import panels, save_figure
from bayescl.report.titles import data_title
from bayescl.runs.losses import BASELINE, LOSSES
from bayescl.vision.probes import probe_title


def draw_comparison(result: Mapping[str, Any], path: Path) -> None:
    """Draw a comparison's few-label accuracies, and paired differences to InfoNCE.

    Each dot is a seed, and thin lines join the dots of one seed; bars and figures are means. In
    the last panel, which leaves the oracle out, error bars are standard deviations over seeds.

    Args:
        result: what :func:`~bayescl.experiments.images.comparison.compare_images` returns.
        path: the PNG file to write; replaced if it is there.
    """
    summary = result["summary"]
    losses: Mapping[str, Any] = summary["losses"]
    names = list(losses)
    probes = [probe for probe in losses[names[0]]["probes"] if probe != "linear_top_5"]
    few = [probe for probe in probes if probe.startswith("few_label_")] or probes[-1:]
    # An oracle's difference is so large that it would hide the others'.
    paired = [
        name
        for name in names
        if "paired_difference" in losses[name] and not LOSSES[name].needs_labels
    ]
    columns = len(few) + bool(paired)

    figure, axes = panels(1, columns, width=1.5 + 3.7 * columns, height=4.4)
    for axis in axes:
        axis.grid(visible=False)
    for axis, probe in zip(axes, few, strict=False):
        _draw_seeds(axis, losses, names, probe)
    if paired:
        _draw_differences(axes[-1], losses, paired, probes)
    settings = result["settings"]
    count = len(summary["seeds"])
    figure.suptitle(
        f"{data_title(settings['data'])}: {settings['epochs']} epochs, "
        f"{count} seed{'s' * (count != 1)}, scored on the {settings['evaluate_on']} part",
        fontsize=11,
    )
    save_figure(figure, path, dpi=150)


def _draw_seeds(axis: Any, losses: Mapping[str, Any], names: list[str], probe: str) -> None:
    """Accuracy of every run by loss, with means."""
    columns = range(len(names))
    per_loss = [losses[name]["probes"][probe] for name in names]
    for accuracies in zip(*(entry["values"] for entry in per_loss), strict=True):
        axis.plot(columns, [100 * a for a in accuracies], color="#c9ced6", lw=0.8, zorder=1)
    for column, (name, entry) in enumerate(zip(names, per_loss, strict=True)):
        points = [100 * value for value in entry["values"]]
        colour = LOSSES[name].colour
        axis.scatter([column] * len(points), points, s=22, color=colour, alpha=0.75, zorder=2)
        mean = 100 * entry["mean"]
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
        axis.axhline(level, color=LOSSES[BASELINE].colour, lw=0.8, ls=":", zorder=0)
    axis.set_xticks(columns, [LOSSES[name].title for name in names], rotation=25, ha="right")
    axis.set_xlim(-0.5, len(names) - 0.5)
    axis.margins(y=0.12)
    axis.set_title(probe_title(probe), fontsize=11)
    axis.set_ylabel("accuracy, %")


def _draw_differences(
    axis: Any, losses: Mapping[str, Any], names: list[str], probes: list[str]
) -> None:
    """Paired differences to InfoNCE of every probe."""
    width = 0.7 / len(names)
    for place, name in enumerate(names):
        entries = [losses[name]["paired_difference"][probe] for probe in probes]
        rows = [row + (place - (len(names) - 1) / 2) * width for row in range(len(probes))]
        axis.errorbar(
            [100 * entry["mean"] for entry in entries],
            rows,
            xerr=[100 * (entry["spread"] or 0.0) for entry in entries],
            fmt="o",
            ms=4.5,
            capsize=2,
            color=LOSSES[name].colour,
            label=LOSSES[name].title,
        )
    axis.axvline(0, color=LOSSES[BASELINE].colour, lw=0.8, ls=":")
    axis.set_yticks(range(len(probes)), [probe_title(probe) for probe in probes])
    axis.invert_yaxis()
    axis.set_xlabel("points above InfoNCE, paired by seed")
    axis.set_title("difference to InfoNCE, oracle left out", fontsize=11)
    axis.legend(fontsize=8, frameon=False, loc="best")
