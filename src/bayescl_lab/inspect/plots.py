"""Figures of a diagnosis. Matplotlib is imported when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayescl.axes import Int, Tensor
from bayescl.diagnostics.summary import Diagnosis, WeightHistogram
from bayescl_lab._figures import (
    FALSE_COLOUR,
    LEVELS,
    NEUTRAL,
    TRUE_COLOUR,
    legend_below,
    legend_under,
    panels,
)
from bayescl_lab.inspect.measures import EmbeddingDiagnosis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_CHECKS = (("#009E73", "o"), ("#0072B2", "s"), ("#CC79A7", "^"), ("#E69F00", "D"))


def reliability_figure(diagnosis: Diagnosis, *, title: str = "") -> Figure:
    """Plot the share of true negatives against the posterior, for each set of parameters.

    On the diagonal the posterior is calibrated; below it, its predictions are too high.

    Args:
        diagnosis: a diagnosis with labels.
        title: title of the figure.

    Raises:
        ValueError: if the diagnosis has no labels.
    """
    if not diagnosis.posteriors:
        raise ValueError("a reliability diagram needs labels, got a diagnosis without")
    figure, (axis,) = panels(1, 1, width=6.0, height=5.6)
    lowest = 1.0
    for check, (colour, marker) in zip(diagnosis.posteriors, _CHECKS, strict=False):
        points = check.predicted, check.observed
        lowest = min(lowest, *(float(values.min()) for values in points))
        label = f"{check.name}, ECE {check.ece:.4f}"
        axis.plot(*points, color=colour, marker=marker, ms=4.5, lw=1.4, label=label)
    start = max(0.0, lowest - 0.05)
    axis.plot([start, 1], [start, 1], color=NEUTRAL, lw=0.9, ls=":", label="calibrated")
    axis.set(xlim=(start, 1.01), ylim=(start, 1.01), ylabel="share of true negatives")
    axis.set_xlabel("posterior probability of a true negative")
    axis.set_title(title, fontsize=11)
    legend_below(figure, axis, columns=1, size=8.5)
    return figure


def weights_figure(diagnosis: Diagnosis, *, title: str = "") -> Figure:
    """Plot the distribution of weights of true and of false negatives, each adding up to 1.

    Args:
        diagnosis: a diagnosis with or without labels.
        title: title of the figure.
    """
    figure, (axis,) = panels(1, 1, width=6.4, height=4.4)
    means = (diagnosis.mean_weight_true, diagnosis.mean_weight_false)
    _draw_kinds(axis, diagnosis.histogram, means)
    axis.axvline(1, color=NEUTRAL, lw=0.9, ls=":")
    axis.set(xlabel="weight of a candidate (InfoNCE: 1)", ylabel="share of its kind")
    axis.set_title(title, fontsize=11)
    legend_below(figure, axis, columns=2, size=8.5)
    return figure


def similarity_figure(diagnosis: EmbeddingDiagnosis) -> Figure:
    """Plot the similarity of candidates, and the weight that each loss gives them.

    With labels, the upper panel has one curve for true and one for false negatives. The lower panel
    has one curve per loss. The oracle's is the share of true negatives at that similarity, which a
    posterior should follow.

    Args:
        diagnosis: result of :func:`~bayescl_lab.inspect.measures.diagnose_embeddings`.
    """
    figure, (upper, lower) = panels(2, 1, width=6.6, height=7.4)
    edges = diagnosis.similarity.edges
    inhabited = _draw_kinds(upper, diagnosis.similarity).nonzero().flatten()
    upper.set_ylabel("share of its kind")
    middles = (edges[1:] + edges[:-1]) / 2
    colours = iter(LEVELS)
    for name, weights in diagnosis.weight_by_similarity.items():
        colour = NEUTRAL if name == "InfoNCE" else next(colours)
        lower.plot(middles, weights, color=colour, lw=1.6, label=name)
    lower.set_ylabel("mean weight of a candidate")
    # The hard loss's weights leave the others no room otherwise.
    lower.set_ylim(-0.05, 3)
    start = float(edges[inhabited[0]])
    for axis in (upper, lower):
        axis.set(xlim=(start, 1.0), xlabel="cosine similarity of anchor and candidate")
        legend_under(axis, columns=5, size=8.5)
    return figure


def _draw_kinds(
    axis: Axes, histogram: WeightHistogram, means: tuple[float | None, float | None] | None = None
) -> Int[Tensor, " bins"]:
    """Draw the distribution of each kind of candidates, each adding up to 1; return all counts."""
    true, false = histogram.true_negatives, histogram.false_negatives
    if false is None:
        kinds = [("candidates", NEUTRAL, true)]
    else:
        kinds = [("true negatives", TRUE_COLOUR, true), ("false negatives", FALSE_COLOUR, false)]
    for place, (name, colour, count) in enumerate(kinds):
        shares = count.double() / max(1, int(count.sum()))
        if means is not None:
            mean = None if false is None else means[place]
            name = f"{int(count.sum()):,} {name}" + ("" if mean is None else f", mean {mean:.3f}")
        look: Any = {"color": colour, "lw": 1.2}
        axis.stairs(shares, histogram.edges, fill=True, alpha=0.35, label=name, **look)
        axis.stairs(shares, histogram.edges, **look)
    return true if false is None else true + false
