"""The figure of the estimation study."""

from __future__ import annotations

from matplotlib.figure import Figure

from bayescl._figures import NEUTRAL, legend_under, panels
from bayescl.simulation.tables import Table

SHOWN_PRIOR = 0.1
_ON_THE_PROCESS = (
    ("alpha_model", "with labels, model reading", "#0072B2", "o"),
    ("alpha_authors", "with labels, the AUC itself", "#CC79A7", "s"),
    ("free_alpha", "without labels, model reading", "#E69F00", "^"),
)
_ON_DIGITS = (
    ("auc", "all labels", "#0072B2", "o"),
    ("part_auc", "20 labels per class", "#009E73", "D"),
    ("free_auc", "without labels (views)", "#E69F00", "^"),
)
_SHOWN_VARIANTS = (("InfoNCE", "InfoNCE", ":"), ("fixed", "Bayesian", "-"))


def estimation_figure(process: Table, digits: Table) -> Figure:
    """Draw estimated against true alpha on the process, and AUCs over the epochs on digits.

    Args:
        process: one record per alpha and prior.
        digits: one record per variant and epoch.
    """
    figure, (left, right) = panels(1, 2, width=10.5, height=5.0)
    some = process.where(tau_plus=SHOWN_PRIOR)
    truth = some.numbers("alpha")
    left.plot(truth, truth, color=NEUTRAL, lw=0.9, ls=":")
    for column, label, colour, marker in _ON_THE_PROCESS:
        left.errorbar(
            truth,
            some.numbers(column),
            yerr=[2 * error for error in some.numbers(f"{column}_error")],
            color=colour,
            marker=marker,
            ms=5,
            lw=1.4,
            capsize=2,
            label=label,
        )
    left.set_xlabel("alpha of the process")
    left.set_ylabel("alpha estimated")
    left.set_title(f"generative process, tau_plus {SHOWN_PRIOR}", fontsize=11)
    for variant, title, line in _SHOWN_VARIANTS:
        rows = digits.where(variant=variant)
        for column, label, colour, marker in _ON_DIGITS:
            right.errorbar(
                rows.numbers("epoch"),
                rows.numbers(column),
                yerr=rows.numbers(f"{column}_spread"),
                color=colour,
                marker=marker,
                ms=4.5,
                lw=1.4,
                ls=line,
                capsize=2,
                label=f"{label}, {title}",
            )
    right.axhline(5 / 6, color=NEUTRAL, lw=0.9, ls=":", label="5/6, the model's largest AUC")
    right.set_xlabel("epoch")
    right.set_ylabel("AUC")
    right.set_title("digits, training part", fontsize=11)
    legend_under(left, columns=1, size=8.5, distance=0.13)
    legend_under(right, columns=2, size=8.5, distance=0.13)
    return figure
