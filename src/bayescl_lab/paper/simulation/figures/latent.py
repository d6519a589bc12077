"""Figures of the posterior of latent classes."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.figures.style import sized_panels
from bayescl_lab.paper.simulation.tables import Table

_COLOURS = {
    "known": "#000000",
    "0.5": "#D55E00",
    "1": "#E69F00",
    "1.5": "#CC79A7",
    "2": "#56B4E9",
    "4": "#009E73",
    "together": "#0072B2",
}
_MARKERS = {
    "known": "x",
    "0.5": "v",
    "1": "s",
    "1.5": "P",
    "2": "^",
    "4": "D",
    "together": "o",
}
_NAMES = {"known": "the classes' own components", "together": "2, 3, 4 and 6 together"}
_FIGURES = (
    ("precision", "precision of pairs above 1/2", TRUE_COLOUR, "o"),
    ("recall", "their recall", LEVELS[1], "s"),
    ("agreement", "agreement of views", FALSE_COLOUR, "^"),
)


def draw_latent(table: Table) -> Figure:
    """What is found over the number of components and over noise, and agreement as its sign."""
    figure, axes = sized_panels(2, 2, title="Latent classes: what fitted components find")
    swept = table.where(swept="components")
    names = [str(name) for name in swept.distinct("components")]
    for axis, classes in zip(axes[:2], swept.distinct("classes"), strict=True):
        here = swept.where(classes=classes)
        for column, label, colour, marker in _FIGURES:
            _bars(axis, range(len(names)), here, column, colour, marker, label)
        axis.set_xticks(range(len(names)), names)
        axis.set(
            title=f"classes of {'one size' if classes == 'equal' else 'sizes 5:1'}",
            xlabel="components per class",
            ylim=(-0.03, 1.03),
        )
        legend_under(axis, size=8)
    noise = table.where(swept="noise", components="together")
    for column, label, colour, marker in _FIGURES:
        _bars(axes[2], noise.numbers("noise"), noise, column, colour, marker, label)
    axes[2].set(
        title="2, 3, 4 and 6 components together",
        xlabel="length of a view's noise",
        ylim=(-0.03, 1.03),
    )
    legend_under(axes[2], size=8)
    for name in table.where(swept="noise").distinct("components"):
        here = _with_precision(table.where(swept="noise", components=name))
        axes[3].plot(
            here.numbers("agreement"),
            here.numbers("precision"),
            color=_COLOURS[str(name)],
            marker=_MARKERS[str(name)],
            ms=4.5,
            label=f"{_NAMES.get(str(name), str(name))} per class",
        )
    axes[3].axvspan(0.5, 0.8, color=NEUTRAL, alpha=0.12, label="trust rises from 0 to 1")
    axes[3].set(
        title="as noise grows, from right to left",
        xlabel="agreement of views",
        ylabel="precision of pairs above 1/2",
        xlim=(0, 1.02),
        ylim=(-0.03, 1.03),
    )
    legend_under(axes[3], columns=1, size=8)
    return figure


def draw_latent_calibration(table: Table) -> Figure:
    """Posterior against the share of pairs of one class, by the number of components."""
    figure, axes = sized_panels(1, 2, title="Latent classes: posterior against frequency")
    for axis, classes in zip(axes, table.distinct("classes"), strict=True):
        axis.plot([0, 1], [0, 1], color=NEUTRAL, ls=":", lw=1.2, label="exact")
        for name in table.distinct("components"):
            here = table.where(classes=classes, components=name)
            axis.errorbar(
                here.numbers("posterior"),
                here.numbers("share"),
                yerr=[2 * error for error in here.numbers("share_error")],
                color=_COLOURS[str(name)],
                marker=_MARKERS[str(name)],
                ms=4,
                lw=1.2,
                elinewidth=1,
                label=_NAMES.get(str(name), str(name)),
            )
        axis.set(
            title=f"classes of {'one size' if classes == 'equal' else 'sizes 5:1'}",
            xlabel="posterior of one class",
            ylabel="share of pairs of one class",
            xlim=(-0.03, 1.03),
            ylim=(-0.03, 1.03),
        )
    legend_below(figure, axes[0], note="components per class; bars: two standard errors")
    return figure


def _with_precision(table: Table) -> Table:
    """The records in which any pair is above 1/2."""
    return Table(tuple(record for record in table.records if record["precision"] != ""))


def _bars(
    axis: Axes,
    places: Sequence[float],
    table: Table,
    column: str,
    colour: str,
    marker: str,
    label: str,
) -> None:
    """A curve with bars from the 5 % to the 95 % quantile over draws."""
    known = [
        (place, record)
        for place, record in zip(places, table.records, strict=True)
        if record[column] != ""
    ]
    means = [float(record[column]) for _, record in known]
    low = [float(record[column]) - float(record[f"{column}_low"]) for _, record in known]
    high = [float(record[f"{column}_high"]) - float(record[column]) for _, record in known]
    axis.errorbar(
        [place for place, _ in known],
        means,
        yerr=[low, high],
        color=colour,
        marker=marker,
        ms=4.5,
        lw=1.4,
        elinewidth=1,
        label=label,
    )
