"""Figures of the three lemmas."""

from __future__ import annotations

from matplotlib.figure import Figure

from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, legend_below
from bayescl_lab.paper.simulation.figures.style import (
    BAND_NOTE,
    ESTIMATORS,
    LABELS,
    LINES,
    Look,
    banded,
    estimator_curves,
    sized_panels,
)
from bayescl_lab.paper.simulation.summaries import measured_rate
from bayescl_lab.paper.simulation.tables import Table

MARKERS = ("o", "s", "^", "D")


def draw_reliability(table: Table) -> Figure:
    """Posterior against the share of true negatives, by number of candidates and ranks."""
    counts = table.distinct("candidates")
    figure, axes = sized_panels(2, len(counts), title="Lemma 1: posterior against frequency")
    for row, ranks in enumerate(("upper", "mid")):
        for column, count in enumerate(counts):
            axis = axes[row * len(counts) + column]
            axis.plot([0, 1], [0, 1], color=NEUTRAL, ls=":", lw=1.2, label="exact")
            here = table.where(candidates=count, ranks=ranks)
            pairs = dict.fromkeys((record["alpha"], record["tau_plus"]) for record in here.records)
            for (alpha, tau_plus), colour, marker in zip(pairs, LEVELS, MARKERS, strict=False):
                part = here.where(alpha=alpha, tau_plus=tau_plus)
                share = part.numbers("share")
                low = [s - edge for s, edge in zip(share, part.numbers("share_low"), strict=True)]
                high = [edge - s for s, edge in zip(share, part.numbers("share_high"), strict=True)]
                axis.errorbar(
                    part.numbers("posterior"),
                    share,
                    yerr=[low, high],
                    color=colour,
                    marker=marker,
                    ms=4,
                    ls="none",
                    elinewidth=1,
                    label=rf"$\alpha$ = {alpha:g}, $\tau^+$ = {tau_plus:g}",
                )
            axis.set(
                title=f"{ranks}{' ' if ranks == 'upper' else '-'}ranks, $N$ = {count}",
                xlabel="posterior of a true negative",
                ylabel="share of true negatives",
                xlim=(-0.03, 1.03),
                ylim=(-0.03, 1.03),
            )
    legend_below(figure, axes[0], note="bars: 5 % to 95 % quantiles over draws")
    return figure


def draw_convergence(table: Table) -> Figure:
    """Each loss less the supervised loss, over the number of candidates."""
    figure, axes = sized_panels(1, 2, title="Lemma 2: difference to the supervised loss")
    names = [str(name) for name in table.distinct("loss")]
    estimator_curves(axes[0], table, names, x="candidates", y="gap", by="loss")
    axes[0].set(title="single draws scatter", ylabel="loss less supervised loss, nats")
    for name in names:
        here, look = table.where(loss=name), ESTIMATORS[name]
        axes[1].errorbar(
            here.numbers("candidates"),
            here.numbers("gap"),
            yerr=[2 * error for error in here.numbers("gap_error")],
            color=look.colour,
            ls=look.line,
            marker=look.marker,
            ms=4,
            capsize=2,
        )
    axes[1].set(title="mean, with two standard errors", ylim=(-0.1, 0.1))
    for axis in axes:
        axis.axhline(0, color="black", lw=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xlabel(LABELS["candidates"])
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE.replace("line", "left: line"))
    return figure


def draw_error_bound(table: Table) -> Figure:
    """The loss's error under its bound, over candidates and over priors."""
    figure, axes = sized_panels(1, 2, title="Lemma 3: error of the Bayesian loss (upper ranks)")
    for axis, swept in zip(axes, ("candidates", "tau_plus"), strict=True):
        here = table.where(axis=swept, estimator="bayesian_upper")
        for alpha, colour, line, marker in zip(
            here.distinct("alpha"), LEVELS, LINES, MARKERS, strict=False
        ):
            part = here.where(alpha=alpha)
            label = rf"measured, $\alpha$ = {alpha:g}"
            if swept == "candidates":
                label += f", falls as $N^{{{measured_rate(part):.2f}}}$"
            banded(axis, part, swept, "error", Look(colour, line, marker), label)
        bound = here.where(alpha=here.distinct("alpha")[0])
        for column, colour, line, label in (
            ("bound", FALSE_COLOUR, "-", r"bound as stated, $\tau^-\sqrt{2\pi/N}$"),
            ("mended_bound", NEUTRAL, "--", "bound as the mended proof gives it"),
        ):
            axis.plot(
                bound.numbers(swept), bound.numbers(column), color=colour, ls=line, label=label
            )
        axis.set_yscale("log")
        axis.set(xlabel=LABELS[swept], ylabel="mean |error| of the loss, nats")
        other = "tau_plus" if swept == "candidates" else "candidates"
        name = r"\tau^+" if other == "tau_plus" else "N"
        axis.set_title(f"${name}$ = {bound.distinct(other)[0]:g}")
    axes[0].set_xscale("log", base=2)
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE)
    return figure
