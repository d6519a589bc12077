r"""Checks of the model itself: its scores, and what alpha means in it.

The parameter alpha mixes the order statistics of *one* pair from the proposal distribution. A
false negative and a true negative drawn independently from the two mixtures are not such a pair:
for any proposal distribution,

.. math::
    P(x^+ > x^-) = \int \Phi_{TN}\,d\Phi_{FN} = \tfrac12 + \tfrac{2\alpha - 1}{3} \le \tfrac56 .

That probability is the ROC-AUC of scores against labels, so alpha is not the AUC of independently
drawn scores, though it increases with it.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl import functional as F
from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.curves import ALPHAS
from bayescl_lab.paper.simulation.figures import (
    LABELS,
    Look,
    curve,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Record, columns, over_draws, with_error
from bayescl_lab.paper.simulation.process import (
    Settings,
    generator,
    levels_of,
    observe,
)
from bayescl_lab.paper.simulation.sweeps import SWEEPS, one_draw

TRUE_NEGATIVE, FALSE_NEGATIVE = "true negative", "false negative"
CLASSES = {
    TRUE_NEGATIVE: F.PairMixture.true_negatives,
    FALSE_NEGATIVE: F.PairMixture.false_negatives,
}
COLOURS = {TRUE_NEGATIVE: TRUE_COLOUR, FALSE_NEGATIVE: FALSE_COLOUR}

PAIRS = 20_000
"""Independent pairs per draw and alpha."""


def empirical_densities(settings: Settings, seed: int) -> pl.DataFrame:
    """Histograms of one anchor's observations beside the densities they are drawn from.

    One anchor with 20,000 candidates at temperature 2 and a normal proposal; of the settings, only
    ``tau_plus`` is used.
    """
    edges = torch.linspace(0, 6, 61, dtype=torch.float64)
    width, middle = edges.diff(), (edges[1:] + edges[:-1]) / 2
    point = Settings(
        anchors=1,
        candidates=20_000,
        tau_plus=settings.tau_plus,
        temperature=2.0,
        proposal="normal",
    )
    # The map to observations is monotone, so a bin's probability is a difference of CDFs.
    cdf = torch.special.ndtr(point.temperature * edges.log())
    tables = []
    for alpha in ALPHAS:
        (chunk,) = observe(replace(point, alpha=alpha), generator(seed, "empirical", alpha))
        for label, mixture in CLASSES.items():
            wanted = chunk.true_negative[0] == (label == TRUE_NEGATIVE)
            members, expected = chunk.unlabeled[0, wanted].exp(), mixture(alpha).cdf(cdf).diff()
            size = len(members)
            values = {
                "observation": middle,
                "density": torch.histogram(members, edges).hist / size / width,
                "density_error": (expected * (1 - expected) / size).sqrt() / width,
                "expected": expected / width,
            }
            tables.append(columns({"alpha": alpha, "class": label, "count": size, **values}))
    return pl.concat(tables)


def draw_empirical(table: pl.DataFrame) -> Figure:
    """Histograms of observations with the closed-form densities through them."""
    title = r"Observations $e^{x/t}$ of one anchor, $t$ = 2, $N$ = 20,000"
    figure, axes = sized_panels(2, 2, title=title)
    for axis, panel in zip(axes, parts_of(table, "alpha"), strict=True):
        for label, colour in COLOURS.items():
            here = panel.filter(pl.col("class") == label)
            places, width = here["observation"], here["observation"][1] - here["observation"][0]
            style = {"width": width, "color": colour, "alpha": 0.35}
            axis.bar(places, here["density"], label=f"{label}s, drawn", **style)
            curve(axis, here, "observation", "expected", Look(colour), f"{label}s, expected")
        axis.set(title=rf"$\alpha$ = {panel['alpha'][0]:g}", ylim=(0, 1.5))
        axis.set(xlabel="observation $e^{x/t}$", ylabel="density")
    legend_below(figure, axes[0], columns=2)
    return figure


def independent_pair_auc(alpha: float) -> float:
    """The AUC of independently drawn positives and true negatives, in [1/2, 5/6].

    Example:
        >>> round(independent_pair_auc(0.9), 4), round(independent_pair_auc(1.0), 4)
        (0.7667, 0.8333)
    """
    return 0.5 + (2 * alpha - 1) / 3


def alphas(settings: Settings) -> list[Settings]:
    """The settings at every alpha of the sweeps."""
    return [replace(settings, alpha=alpha) for alpha in SWEEPS["alpha"]]


def pair_order(settings: Settings, seed: int) -> pl.DataFrame:
    """Measure the AUC of independent pairs at an alpha, and the cost of using it as alpha.

    That is the MSE of the Bayesian estimator (mid-ranks) with the true alpha and with the AUC in
    its place, on the same draws.
    """
    alpha, auc = settings.alpha, independent_pair_auc(settings.alpha)
    labels = torch.tensor([[True, False]]).repeat(1, PAIRS)
    draws: list[Record] = []
    for index in range(settings.draws):
        source = generator(seed, "pairs", alpha, index)
        level = levels_of(labels, alpha=alpha, generator=source)
        negative, positive = level.view(-1, 2).unbind(dim=1)
        measured = float((positive > negative).double().mean())
        row: Record = {"alpha": alpha, "closed_form": auc, "measured": measured}
        for name, assumed in (("mse_alpha", alpha), ("mse_auc", auc)):
            source = generator(seed, "assumed", alpha, index)
            row[name] = one_draw(settings, source, assumed=assumed)["bayesian_mid"]["mse"]
        draws.append(row)
    return over_draws(draws, "measured", "mse_alpha", "mse_auc")


def draw_pair_order(table: pl.DataFrame) -> Figure:
    """The AUC of independent pairs, and the error of an estimator that takes it for alpha."""
    figure, axes = sized_panels(1, 2, title=r"What $\alpha$ is not: the AUC of independent pairs")
    curve(axes[0], table, "alpha", "alpha", Look(NEUTRAL, ":"), r"if AUC were $\alpha$")
    closed = r"$1/2 + (2\alpha - 1)/3$"
    curve(axes[0], table, "alpha", "closed_form", Look("#000000"), closed, lw=1)
    marks = Look(TRUE_COLOUR, "none", "o")
    curve(axes[0], table, "alpha", "measured", marks, "measured", spread="band")
    for column, label, look in (
        ("mse_alpha", r"given the true $\alpha$", Look(TRUE_COLOUR, "-", "o")),
        ("mse_auc", r"given the AUC for $\alpha$", Look(FALSE_COLOUR, "--", "s")),
    ):
        curve(axes[1], table, "alpha", column, look, label, spread="band")
    axes[0].set(ylabel="AUC of independent pairs")
    axes[1].set(ylabel="MSE of the Bayesian estimator", ylim=(0, None))
    for axis in axes:
        axis.set(xlabel=LABELS["alpha"])
        legend_under(axis)
    return figure


def pair_order_finding(table: pl.DataFrame) -> str:
    """Is alpha the AUC of independent pairs?"""
    worst = table.sort(pl.col("alpha") - pl.col("measured")).rows(named=True)[-1]
    differs = worst["alpha"] > worst["measured"] + 2 * worst["measured_error"]
    return (
        f"alpha is {'NOT ' * differs}the AUC of independent pairs: at alpha = "
        f"{worst['alpha']:g} that is "
        f"{with_error(worst, 'measured')}, in closed form {worst['closed_form']:.4f}."
    )
