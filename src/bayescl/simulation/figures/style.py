"""One look for all figures: an estimator has the same colour, line and marker everywhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bayescl.simulation.estimators import TITLES
from bayescl.simulation.tables import Table


class Look(NamedTuple):
    """Colour, line style and marker."""

    colour: str
    line: Any
    marker: str


# The palette of Okabe and Ito, which colour-blind readers can tell apart.
ESTIMATORS = {
    "supervised": Look("#000000", ":", "x"),
    "biased": Look("#D55E00", "--", "s"),
    "debiased": Look("#56B4E9", "-.", "^"),
    "hard": Look("#CC79A7", (0, (3, 1, 1, 1, 1, 1)), "v"),
    "bayesian_upper": Look("#009E73", "-", "D"),
    "bayesian_upper_normalized": Look("#009E73", ":", "d"),
    "bayesian_mid": Look("#0072B2", "-", "o"),
    "bayesian_mid_normalized": Look("#0072B2", ":", "."),
}
LEVELS = ("#E69F00", "#009E73", "#0072B2", "#CC79A7")
"""Colours of up to four values of a parameter."""

LINES = ("-", "--", "-.", ":")
TRUE_COLOUR, FALSE_COLOUR, NEUTRAL = "#0072B2", "#D55E00", "#5b6472"
LABELS = {
    "alpha": r"encoder's quality $\alpha$",
    "candidates": "candidates per anchor $N$",
    "tau_plus": r"prior of false negatives $\tau^+$",
    "gamma": r"slide of the proposal $\gamma$",
    "temperature": "temperature $t$",
    "anchors": "anchors $M$",
    "concentration": "concentration of the hard estimator",
}
LOGARITHMIC = {"candidates", "anchors"}
BAND_NOTE = "line: mean of the draws; band: their 5 % to 95 % quantiles"

_STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "bayescl",
}
_PANEL = (4.0, 3.2)


def panels(rows: int, columns: int, *, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of axes, row by row."""
    with rc_context(_STYLE):
        width, height = _PANEL[0] * columns, _PANEL[1] * rows + 1.1
        figure = Figure(figsize=(max(width, 5.5), height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        figure.suptitle(title, fontsize=12)
    return figure, [axis for row in axes for axis in row]


def legend_below(figure: Figure, axis: Axes, *, columns: int = 4, note: str = "") -> None:
    """Put one panel's legend under the figure, where it hides no curve, and a note under it."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        title=note or None,
        title_fontsize=9,
    )


def legend_under(axis: Axes) -> None:
    """Put a panel's own legend under it."""
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, fontsize=9, frameon=False)


def banded(axis: Axes, table: Table, x: str, y: str, look: Look, label: str | None) -> None:
    """A curve with the band that lies beside its column."""
    places = table.numbers(x)
    axis.plot(
        places,
        table.numbers(y),
        color=look.colour,
        ls=look.line,
        marker=look.marker,
        ms=4,
        lw=1.6,
        label=label,
    )
    axis.fill_between(
        places,
        table.numbers(f"{y}_low"),
        table.numbers(f"{y}_high"),
        color=look.colour,
        alpha=0.18,
        lw=0,
    )


def estimator_curves(
    axis: Axes, table: Table, names: Sequence[str], *, x: str, y: str, by: str = "estimator"
) -> None:
    """One banded curve per estimator."""
    for name in names:
        banded(axis, table.where(**{by: name}), x, y, ESTIMATORS[name], TITLES[name])


def label_swept(axis: Axes, parameter: str, y_label: str) -> None:
    """Name the axes of a sweep; counts get a logarithmic axis."""
    axis.set_xlabel(LABELS[parameter])
    axis.set_ylabel(y_label)
    if parameter in LOGARITHMIC:
        axis.set_xscale("log", base=2 if parameter == "candidates" else 10)


def png(figure: Figure) -> bytes:
    """The figure as a PNG file; the same figure gives the same bytes."""
    stream = io.BytesIO()
    with rc_context(_STYLE):
        figure.savefig(stream, format="png", dpi=110, metadata={"Software": None})
    return stream.getvalue()
