"""One look for all figures: an estimator has the same colour, line and marker everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayescl.figures import panels
from bayescl_lab.paper.simulation.estimators import TITLES
from bayescl_lab.paper.simulation.tables import Table


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
LINES = ("-", "--", "-.", ":")
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

_PANEL = (4.0, 3.2)


def sized_panels(rows: int, columns: int, *, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of axes of the usual size, row by row."""
    width, height = _PANEL[0] * columns, _PANEL[1] * rows + 1.1
    return panels(rows, columns, width=max(width, 5.5), height=height, title=title)


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
