"""Figures of comparisons, and of the embeddings of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayescl_lab._figures import panels
from bayescl_lab._types import AnyArray
from bayescl_lab.report.results import headlines, result_title
from bayescl_lab.report.tables import loss_color, loss_title, measure_title
from bayescl_lab.runs.exporting import run_embeddings
from bayescl_lab.runs.losses import BASELINE
from bayescl_lab.runs.result import Result, Score, is_percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ITEMS = 1000  # drawn items
_NAMED = 12  # classes or domains in a legend


def results_figure(results: Sequence[Result]) -> Figure:
    """Plot two measures of every result: a point per seed, the means, and the baselines."""
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
    axis.set_yticks(range(len(figures)), map(loss_title, figures))
    axis.set_ylim(len(figures) - 0.5, -0.5)  # the first on top
    axis.tick_params(labelsize=8)
    axis.grid(visible=False, axis="y")


def embeddings_figure(runs: Mapping[str, Path]) -> Figure:
    """Plot embeddings by t-SNE: a row per run, colored by class and by domain.

    Args:
        runs: Run folders of encoders on the same data, by title. At most 1,000 random items are
            drawn.
    """
    from sklearn.manifold import TSNE

    figure, axes = panels(len(runs), 2, width=9.5, height=0.5 + 3.6 * len(runs))
    panes = iter(axes)
    for title, path in runs.items():
        frame = run_embeddings(path, "all")
        frame = frame.sample(min(_ITEMS, len(frame)), seed=0, shuffle=True)
        embeddings = frame["embedding"].to_numpy()
        lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
        size = min(30.0, (len(frame) - 1) / 3)
        projection = TSNE(2, perplexity=size, init="pca", random_state=0)
        points = projection.fit_transform(embeddings / np.maximum(lengths, 1e-12))
        for column in ("class", "domain"):
            _draw_points(next(panes), points, frame[column].to_numpy(), f"{title}: by {column}")
    return figure


def _draw_points(axis: Axes, points: AnyArray, names: AnyArray, title: str) -> None:
    """Draw points with a color per name."""
    from matplotlib import colormaps

    distinct = sorted({*names.tolist()})
    colors = colormaps["tab20"].colors  # type: ignore[attr-defined]
    for number, name in enumerate(distinct):
        some = points[names == name]
        color = colors[number % 10 * 2 + number // 10 % 2]
        axis.scatter(some[:, 0], some[:, 1], s=7, color=color, label=str(name), linewidths=0)
    axis.set(xticks=[], yticks=[])
    axis.set_title(title, fontsize=9)
    if len(distinct) <= _NAMED:
        axis.legend(fontsize=7, markerscale=2, loc="center left", bbox_to_anchor=(1.0, 0.5))
