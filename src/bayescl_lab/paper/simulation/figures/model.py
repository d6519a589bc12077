"""Figures that check the model itself: its samplers, and what alpha means in it."""

from __future__ import annotations

from matplotlib.figure import Figure

from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.curves import FALSE_NEGATIVE, TRUE_NEGATIVE
from bayescl_lab.paper.simulation.figures.style import BAND_NOTE, LABELS, Look, banded, sized_panels
from bayescl_lab.paper.simulation.tables import Table


def draw_acceptance(table: Table) -> Figure:
    """Acceptance rates against their closed form."""
    figure, (axis,) = sized_panels(1, 1, title="Acceptance rate of the accept-reject samplers")
    expected = table.where(**{"class": TRUE_NEGATIVE})
    axis.plot(
        expected.numbers("alpha"),
        expected.numbers("expected"),
        color=NEUTRAL,
        ls=":",
        label=r"$1/(2\alpha)$",
    )
    for label, look in (
        (TRUE_NEGATIVE, Look(TRUE_COLOUR, "none", "o")),
        (FALSE_NEGATIVE, Look(FALSE_COLOUR, "none", "x")),
    ):
        here = table.where(**{"class": label})
        banded(axis, here, "alpha", "rate", look, f"{label}s")
    axis.set(xlabel=LABELS["alpha"], ylabel="share of proposals accepted")
    legend_below(figure, axis, columns=3, note=BAND_NOTE.replace("line", "marks"))
    return figure


def draw_pair_order(table: Table) -> Figure:
    """The AUC of independent pairs, and the error of an estimator that takes it for alpha."""
    figure, axes = sized_panels(1, 2, title=r"What $\alpha$ is not: the AUC of independent pairs")
    alpha = table.numbers("alpha")
    axes[0].plot(alpha, alpha, color=NEUTRAL, ls=":", label=r"if AUC were $\alpha$")
    axes[0].plot(
        alpha,
        table.numbers("closed_form"),
        color="#000000",
        lw=1,
        label=r"$1/2 + (2\alpha - 1)/3$",
    )
    banded(axes[0], table, "alpha", "measured", Look(TRUE_COLOUR, "none", "o"), "measured")
    axes[0].set(xlabel=LABELS["alpha"], ylabel="AUC of independent pairs")
    for column, label, look in (
        ("mse_alpha", r"given the true $\alpha$", Look(TRUE_COLOUR, "-", "o")),
        ("mse_auc", r"given the AUC for $\alpha$", Look(FALSE_COLOUR, "--", "s")),
    ):
        banded(axes[1], table, "alpha", column, look, label)
    axes[1].set(xlabel=LABELS["alpha"], ylabel="MSE of the Bayesian estimator", ylim=(0, None))
    for axis in axes:
        legend_under(axis)
    return figure
