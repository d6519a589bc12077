"""Figures of the sweeps: errors and mean values of the estimators."""

from __future__ import annotations

from matplotlib.figure import Figure

from bayescl.figures import legend_below
from bayescl_lab.paper.simulation.estimators import SUPERVISED, TITLES
from bayescl_lab.paper.simulation.figures.style import (
    BAND_NOTE,
    ESTIMATORS,
    LABELS,
    estimator_curves,
    label_swept,
    sized_panels,
)
from bayescl_lab.paper.simulation.tables import Table

SHOWN = ("biased", "debiased", "bayesian_upper", "bayesian_mid")
VARIANTS = (
    "bayesian_upper",
    "bayesian_upper_normalized",
    "bayesian_mid",
    "bayesian_mid_normalized",
)
MSE = "MSE to the supervised mean"
WIDE = 1e6


def draw_mse(table: Table) -> Figure:
    """MSE of the estimators, one panel per swept parameter.

    Where errors span many orders of magnitude along a curve, curves are divided by the biased
    estimator's mean: side by side they could not be told apart.
    """
    parameters = [str(name) for name in table.distinct("parameter")]
    proposal = table.distinct("proposal")[0]
    figure, axes = sized_panels(2, 3, title=f"Mean squared error, proposals: {proposal}")
    for axis, parameter in zip(axes, parameters, strict=True):
        here = table.where(parameter=parameter)
        biased = here.where(estimator="biased").numbers("mse")
        relative = max(biased) > WIDE * min(biased) > 0
        if relative:
            here = _relative_to_biased(here)
        estimator_curves(axis, here, SHOWN, x="value", y="mse")
        label_swept(axis, parameter, "MSE / mean MSE of biased" if relative else MSE)
        axis.set_yscale("log")
    legend_below(figure, axes[0], note=BAND_NOTE)
    return figure


def draw_verdicts(table: Table) -> Figure:
    """MSE of the Bayesian estimator over that of each rival, for every swept point."""
    proposals = table.distinct("proposal")
    figure, axes = sized_panels(
        2, 1, title="Every swept point: MSE of the Bayesian estimator over a rival's"
    )
    parameters = table.distinct("parameter")
    for axis, proposal in zip(axes, proposals, strict=True):
        for shift, estimator in ((-0.24, "bayesian_upper"), (0.06, "bayesian_mid")):
            for side, rival, marker in ((0.0, "biased", "s"), (0.16, "debiased", "^")):
                here = table.where(proposal=proposal, estimator=estimator, rival=rival)
                place = [parameters.index(r["parameter"]) + shift + side for r in here.records]
                axis.plot(
                    place,
                    here.numbers("ratio"),
                    ls="none",
                    marker=marker,
                    ms=4,
                    alpha=0.7,
                    color=ESTIMATORS[estimator].colour,
                    label=f"{TITLES[estimator]} over {rival}",
                )
        axis.axhline(1, color="black", lw=1)
        axis.set(title=f"proposals: {proposal}", yscale="log", ylabel="ratio of MSE")
        axis.set_xticks(range(len(parameters)), [LABELS[str(name)] for name in parameters])
        axis.tick_params(axis="x", labelrotation=12)
    legend_below(figure, axes[0], columns=2, note="below the line the Bayesian estimator is better")
    figure.set_size_inches(8.5, 8)
    return figure


def draw_means(table: Table) -> Figure:
    """Mean values of the estimators over all anchors."""
    parameters = [str(name) for name in table.distinct("parameter")]
    figure, axes = sized_panels(2, len(parameters), title="Mean values of the estimators")
    for upper, lower, parameter in zip(axes, axes[len(parameters) :], parameters, strict=False):
        here = table.where(parameter=parameter)
        estimator_curves(upper, here, (*SHOWN, SUPERVISED), x="value", y="mean")
        label_swept(upper, parameter, "mean over anchors")
        estimator_curves(lower, here, (*SHOWN, SUPERVISED), x="value", y="bias")
        label_swept(lower, parameter, "mean less supervised mean")
        lower.set_ylim(-0.03, 0.08)
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE)
    return figure


def draw_ranks(table: Table) -> Figure:
    """The Bayesian estimator's variants against each other."""
    parameters = [str(name) for name in table.distinct("parameter")]
    figure, axes = sized_panels(1, len(parameters), title="Variants of the Bayesian estimator")
    for axis, parameter in zip(axes, parameters, strict=True):
        here = table.where(parameter=parameter)
        estimator_curves(axis, here, VARIANTS, x="value", y="mse")
        label_swept(axis, parameter, MSE)
        if parameter == "candidates":
            axis.set_yscale("log")
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE)
    return figure


def draw_hard(table: Table) -> Figure:
    """The hard estimator's error beside the others'."""
    parameters = [str(name) for name in table.distinct("parameter")]
    figure, axes = sized_panels(1, len(parameters), title="Error of the hard estimator")
    for axis, parameter in zip(axes, parameters, strict=True):
        here = table.where(parameter=parameter)
        estimator_curves(axis, here, ("hard", *SHOWN), x="value", y="mse")
        label_swept(axis, parameter, MSE)
        axis.set_yscale("log")
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE)
    return figure


def _relative_to_biased(table: Table) -> Table:
    """The table with errors divided by the biased estimator's mean error at the same value."""
    scale = {
        record["value"]: float(record["mse"])
        for record in table.records
        if record["estimator"] == "biased"
    }
    columns = ("mse", "mse_low", "mse_high")
    return Table.of(
        {**record, **{name: float(record[name]) / scale[record["value"]] for name in columns}}
        for record in table.records
    )
