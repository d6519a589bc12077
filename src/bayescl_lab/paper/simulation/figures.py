"""One look for all figures: an estimator has the same colour, line and marker everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayescl_lab._figures import LEVELS, panels


class Look(NamedTuple):
    """Colour, line style, marker and name."""

    colour: str
    line: Any = "-"
    marker: str = ""
    title: str | None = None


_DOTS = (0, (3, 1, 1, 1, 1, 1))
# The palette of Okabe and Ito, which colour-blind readers can tell apart.
ESTIMATORS = {
    "supervised": Look("#000000", ":", "x", "supervised (true negatives only)"),
    "biased": Look("#D55E00", "--", "s", "biased (InfoNCE)"),
    "debiased": Look("#56B4E9", "-.", "^", "debiased"),
    "hard": Look("#CC79A7", _DOTS, "v", "hard negatives"),
    "bayesian_upper": Look("#009E73", "-", "D", "Bayesian, upper ranks"),
    "bayesian_upper_normalized": Look(
        "#009E73", ":", "d", "Bayesian, upper ranks, self-normalised"
    ),
    "bayesian_mid": Look("#0072B2", "-", "o", "Bayesian, mid-ranks"),
    "bayesian_mid_normalized": Look("#0072B2", ":", ".", "Bayesian, mid-ranks, self-normalised"),
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
LOGARITHMIC = {"candidates": 2, "anchors": 10}
BAND_NOTE = "line: mean of the draws; band: their 5 % to 95 % quantiles"

_PANEL = (4.0, 3.2)


def sized_panels(rows: int, columns: int, *, title: str) -> tuple[Figure, list[Axes]]:
    """A figure with a title and a grid of axes of the usual size, row by row."""
    width, height = _PANEL[0] * columns, _PANEL[1] * rows + 1.1
    return panels(rows, columns, width=max(width, 5.5), height=height, title=title)


def parts_of(table: pl.DataFrame, *by: str) -> list[pl.DataFrame]:
    """The rows of a table with equal values in some columns, in the order of the first ones."""
    return table.partition_by(*by, maintain_order=True)


def curve(
    axis: Axes,
    table: pl.DataFrame,
    x: str,
    y: str,
    look: Look,
    label: str | None = None,
    *,
    band: bool = False,
    **more: Any,
) -> None:
    """A column over another one, perhaps with its band; empty cells are left out."""
    here, label = table.drop_nulls(y), label or look.title
    style = {"color": look.colour, "ls": look.line, "marker": look.marker, "ms": 4, "lw": 1.6}
    axis.plot(here[x], here[y], label=label, **{**style, **more})
    if band:
        low, high = here[f"{y}_low"], here[f"{y}_high"]
        axis.fill_between(here[x], low, high, color=look.colour, alpha=0.18, lw=0)


def levels(axis: Axes, table: pl.DataFrame, x: str, y: str, *, by: str) -> None:
    r"""A curve for each value of a column, which is named in Greek as in ``\alpha``."""
    for part, colour, line in zip(parts_of(table, by), LEVELS, LINES, strict=True):
        curve(axis, part, x, y, Look(colour, line), rf"$\{by}$ = {part[by][0]:g}")


def estimator_curves(axis: Axes, table: pl.DataFrame, names: Sequence[str], x: str, y: str) -> None:
    """One banded curve per estimator."""
    for name in names:
        curve(axis, table.filter(estimator=name), x, y, ESTIMATORS[name], band=True)
