"""Figures of closed forms: densities, the CDF transform, weights, and the jump."""

from __future__ import annotations

from matplotlib.figure import Figure

from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.curves import FALSE_NEGATIVE, TRUE_NEGATIVE
from bayescl_lab.paper.simulation.figures.style import LINES, sized_panels
from bayescl_lab.paper.simulation.sampling_bias import ATTAINED, FORMULA
from bayescl_lab.paper.simulation.tables import Table


def draw_densities(table: Table) -> Figure:
    """Both classes' densities, one panel per alpha."""
    alphas = table.distinct("alpha")
    figure, axes = sized_panels(2, 2, title="Densities of scores, normal proposal")
    for axis, alpha in zip(axes, alphas, strict=True):
        here = table.where(alpha=alpha)
        score = here.numbers("score")
        for column, label, colour, line in (
            ("proposal", r"proposal $\phi$", NEUTRAL, ":"),
            ("true_negative", r"true negatives $\phi_{TN}$", TRUE_COLOUR, "-"),
            ("false_negative", r"false negatives $\phi_{FN}$", FALSE_COLOUR, "--"),
        ):
            axis.plot(score, here.numbers(column), color=colour, ls=line, label=label)
        axis.set(
            title=rf"$\alpha$ = {alpha:g}", xlabel="score $x$", ylabel="density", ylim=(0, 0.55)
        )
    legend_below(figure, axes[0], columns=3)
    return figure


def draw_empirical(table: Table) -> Figure:
    """Histograms of observations with the closed-form densities through them."""
    alphas = table.distinct("alpha")
    title = r"Observations $e^{x/t}$ of one anchor, $t$ = 2, $N$ = 20,000, accept-reject"
    figure, axes = sized_panels(2, 2, title=title)
    for axis, alpha in zip(axes, alphas, strict=True):
        for label, colour in ((TRUE_NEGATIVE, TRUE_COLOUR), (FALSE_NEGATIVE, FALSE_COLOUR)):
            here = table.where(alpha=alpha, **{"class": label})
            middle = here.numbers("observation")
            axis.bar(
                middle,
                here.numbers("density"),
                width=middle[1] - middle[0],
                color=colour,
                alpha=0.35,
                label=f"{label}s, drawn",
            )
            axis.plot(
                middle, here.numbers("expected"), color=colour, lw=1.6, label=f"{label}s, expected"
            )
        axis.set(
            title=rf"$\alpha$ = {alpha:g}",
            xlabel="observation $e^{x/t}$",
            ylabel="density",
            ylim=(0, 1.5),
        )
    legend_below(figure, axes[0], columns=2)
    return figure


def draw_cdf_transform(table: Table) -> Figure:
    """The proposal CDF against the unlabeled CDF."""
    tau_plus = table.distinct("tau_plus")[0]
    figure, (axis,) = sized_panels(1, 1, title=rf"CDF transform, $\tau^+$ = {tau_plus:g}")
    for alpha, colour, line in zip(table.distinct("alpha"), LEVELS, LINES, strict=True):
        here = table.where(alpha=alpha)
        axis.plot(
            here.numbers("unlabeled_cdf"),
            here.numbers("proposal_cdf"),
            color=colour,
            ls=line,
            label=rf"$\alpha$ = {alpha:g}",
        )
    axis.set(xlabel=r"CDF of unlabeled candidates $\Phi_{UN}$", ylabel=r"proposal CDF $\Phi$")
    legend_below(figure, axis)
    return figure


def draw_weights(table: Table) -> Figure:
    """Importance weights, at a fixed alpha and at a fixed beta."""
    tau_plus = table.distinct("tau_plus")[0]
    figure, axes = sized_panels(1, 2, title=rf"Importance weights, $\tau^+$ = {tau_plus:g}")
    for axis, fixed, varied in zip(axes, ("alpha", "beta"), ("beta", "alpha"), strict=True):
        here = table.where(fixed=fixed)
        for value, colour, line in zip(here.distinct(varied), LEVELS, LINES, strict=True):
            curve = here.where(**{varied: value})
            axis.plot(
                curve.numbers("unlabeled_cdf"),
                curve.numbers("weight"),
                color=colour,
                ls=line,
                label=rf"$\{varied}$ = {value:g}",
            )
        axis.set(
            title=rf"$\{fixed}$ = {here.distinct(fixed)[0]:g}",
            xlabel=r"CDF of unlabeled candidates $\Phi_{UN}$",
            ylabel="importance weight $w$",
            ylim=(0, None),
        )
        legend_under(axis)
    return figure


def draw_sampling_bias(table: Table) -> Figure:
    """The curve with the jump, and how far along it the mixture model reaches."""
    formula = table.where(kind=FORMULA)
    tau_plus = table.distinct("tau_plus")[0]
    jump = 1 / float(tau_plus)
    title = rf"What the biased loss's score says of $p^+/p^-$, $\tau^+$ = {tau_plus:g}"
    figure, axes = sized_panels(1, 2, title=title)
    places = list(zip(formula.numbers("score"), formula.numbers("ratio"), strict=True))
    below = tuple(zip(*(place for place in places if place[0] < jump), strict=True))
    beyond = tuple(zip(*(place for place in places if place[0] > jump), strict=True))
    axes[0].plot(*below, color=NEUTRAL, label="Eq. fractional")
    axes[0].plot(*beyond, color=NEUTRAL)
    axes[0].axvline(jump, color=FALSE_COLOUR, ls=":", label=r"jump at $m/\tau^+$")
    axes[0].axvspan(jump, 2 * jump, color=FALSE_COLOUR, alpha=0.1, label="no density is there")
    axes[0].set(
        title="the formula on both sides",
        xlabel=r"score $\hat{x}^+/m = p^+/p_d$",
        ylabel="$p^+/p^-$",
        ylim=(-150, 150),
    )
    axes[1].plot(*below, color="#c3c8cf", lw=5)
    attained = table.where(kind=ATTAINED)
    for alpha, colour, line in reversed(
        list(zip(attained.distinct("alpha"), LEVELS, LINES, strict=True))
    ):
        here = attained.where(alpha=alpha)
        axes[1].plot(
            here.numbers("score"),
            here.numbers("ratio"),
            color=colour,
            ls=line if alpha != attained.distinct("alpha")[0] else "none",
            marker="o" if alpha == attained.distinct("alpha")[0] else None,
            lw=2,
            label=rf"reached at $\alpha$ = {alpha:g}",
        )
    axes[1].axvline(jump, color=FALSE_COLOUR, ls=":")
    axes[1].set(
        title="what the mixture model reaches",
        xlabel=r"score $\hat{x}^+/m = p^+/p_d$",
        ylabel="$p^+/p^-$",
        xlim=(0, 1.05 * jump),
        yscale="log",
        ylim=(0.01, 1000),
    )
    for axis in axes:
        legend_under(axis)
    return figure
