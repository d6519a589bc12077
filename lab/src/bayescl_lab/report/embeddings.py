"""Picture of the embeddings of runs in two dimensions, by class and by domain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayescl_lab._figures import panels
from bayescl_lab._types import AnyArray
from bayescl_lab.runs.exporting import run_embeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ITEMS = 1000  # drawn items
_NAMED = 12  # classes or domains in a legend


def embeddings_figure(runs: Mapping[str, Path]) -> Figure:
    """Plot embeddings by t-SNE: a row per run, colored by class and by domain.

    Args:
        runs: Run folders of encoders on the same data, by title. At most 1,000 random items are
            drawn.
    """
    figure, axes = panels(len(runs), 2, width=9.5, height=0.5 + 3.6 * len(runs))
    figure.set_layout_engine("constrained")
    panes = iter(axes)
    for title, path in runs.items():
        frame = run_embeddings(path, "all")
        frame = frame.sample(min(_ITEMS, len(frame)), seed=0, shuffle=True)
        points = _in_two_dimensions(frame["embedding"].to_numpy())
        for column in ("class", "domain"):
            _draw(next(panes), points, frame[column].to_numpy(), f"{title}: by {column}")
    return figure


def _in_two_dimensions(embeddings: AnyArray) -> AnyArray:
    """Return t-SNE coordinates of unit vectors."""
    from sklearn.manifold import TSNE

    units = embeddings / np.maximum(np.linalg.norm(embeddings, axis=1, keepdims=True), 1e-12)
    neighbors = min(30.0, (len(units) - 1) / 3)
    found: AnyArray = TSNE(2, perplexity=neighbors, init="pca", random_state=0).fit_transform(units)
    return found


def _draw(axis: Axes, points: AnyArray, names: AnyArray, title: str) -> None:
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
