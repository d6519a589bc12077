r"""The model itself: densities, the CDF transform, weights, samples, and what alpha means in it.

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
from bayescl_lab._figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.figures import (
    LABELS,
    Look,
    curve,
    levels,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Record, over_draws, with_error
from bayescl_lab.paper.simulation.process import (
    Settings,
    generator,
    levels_of,
    observe,
)
from bayescl_lab.paper.simulation.sweeps import SWEEPS, one_draw

ALPHAS = (0.5, 0.7, 0.9, 1.0)
LEVEL = torch.linspace(0, 1, 201, dtype=torch.float64)

TRUE_NEGATIVE, FALSE_NEGATIVE = "true negative", "false negative"
CLASSES = {
    TRUE_NEGATIVE: F.PairMixture.true_negatives,
    FALSE_NEGATIVE: F.PairMixture.false_negatives,
}
COLOURS = {TRUE_NEGATIVE: TRUE_COLOUR, FALSE_NEGATIVE: FALSE_COLOUR}

PAIRS = 20_000
"""Independent pairs per draw and alpha."""


def densities(*_: object) -> pl.DataFrame:
    """Densities of both classes' scores for a standard normal proposal, by alpha and score."""
    score = torch.linspace(-4, 4, 201, dtype=torch.float64)
    density = torch.exp(-(score**2) / 2) / (2 * torch.pi) ** 0.5
    cdf = torch.special.ndtr(score)
    tables = []
    for alpha in ALPHAS:
        classes = {
            "true_negative": F.PairMixture.true_negatives(alpha).density(density, cdf),
            "false_negative": F.PairMixture.false_negatives(alpha).density(density, cdf),
        }
        tables.append(
            pl.DataFrame({"alpha": alpha, "score": score, "proposal": density, **classes})
        )
    return pl.concat(tables)


def draw_densities(table: pl.DataFrame) -> Figure:
    """Both classes' densities, one panel per alpha."""
    figure, axes = sized_panels(2, 2, title="Densities of scores, normal proposal")
    for axis, here in zip(axes, parts_of(table, "alpha"), strict=True):
        curve(axis, here, "score", "proposal", Look(NEUTRAL, ":"), r"proposal $\phi$")
        for name, look in (("true", Look(TRUE_COLOUR)), ("false", Look(FALSE_COLOUR, "--"))):
            label = rf"{name} negatives $\phi_{{{name[0].upper()}N}}$"
            curve(axis, here, "score", f"{name}_negative", look, label)
        title = rf"$\alpha$ = {here['alpha'][0]:g}"
        axis.set(title=title, xlabel="score $x$", ylabel="density", ylim=(0, 0.55))
    legend_below(figure, axes[0], columns=3)
    return figure


def cdf_transform(settings: Settings, _seed: int) -> pl.DataFrame:
    """The proposal CDF against the CDF of unlabeled candidates, by alpha."""
    tables = []
    for alpha in ALPHAS:
        place = {"alpha": alpha, "tau_plus": settings.tau_plus}
        proposal = F.proposal_cdf(LEVEL, **place)
        tables.append(pl.DataFrame({**place, "unlabeled_cdf": LEVEL, "proposal_cdf": proposal}))
    return pl.concat(tables)


def draw_cdf_transform(table: pl.DataFrame) -> Figure:
    """The proposal CDF against the unlabeled CDF."""
    title = rf"CDF transform, $\tau^+$ = {table['tau_plus'][0]:g}"
    figure, (axis,) = sized_panels(1, 1, title=title)
    levels(axis, table, "unlabeled_cdf", "proposal_cdf", by="alpha")
    axis.set(xlabel=r"CDF of unlabeled candidates $\Phi_{UN}$", ylabel=r"proposal CDF $\Phi$")
    legend_below(figure, axis)
    return figure


def weight_curves(settings: Settings, _seed: int) -> pl.DataFrame:
    """Importance weights against the CDF of unlabeled candidates.

    There is one row per panel (``"alpha"`` or ``"beta"``, whichever is held fixed), curve and
    CDF value.
    """
    tau_plus, tables = settings.tau_plus, []
    curves = [("alpha", 0.9, beta) for beta in ALPHAS] + [("beta", alpha, 0.5) for alpha in ALPHAS]
    for fixed, alpha, beta in curves:
        proposal = F.proposal_cdf(LEVEL, alpha=alpha, tau_plus=tau_plus)
        weight = F.importance_weights(proposal, alpha=alpha, beta=beta, tau_plus=tau_plus)
        place = {"fixed": fixed, "alpha": alpha, "beta": beta, "tau_plus": tau_plus}
        tables.append(pl.DataFrame({**place, "unlabeled_cdf": LEVEL, "weight": weight}))
    return pl.concat(tables)


def draw_weights(table: pl.DataFrame) -> Figure:
    """Importance weights, at a fixed alpha and at a fixed beta."""
    title = rf"Importance weights, $\tau^+$ = {table['tau_plus'][0]:g}"
    figure, axes = sized_panels(1, 2, title=title)
    for axis, fixed, varied in zip(axes, ("alpha", "beta"), ("beta", "alpha"), strict=True):
        here = table.filter(fixed=fixed)
        levels(axis, here, "unlabeled_cdf", "weight", by=varied)
        axis.set(title=rf"$\{fixed}$ = {here[fixed][0]:g}", ylim=(0, None))
        axis.set(xlabel=r"CDF of unlabeled candidates $\Phi_{UN}$", ylabel="importance weight $w$")
        legend_under(axis)
    return figure


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
            tables.append(pl.DataFrame({"alpha": alpha, "class": label, "count": size, **values}))
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
    curve(axes[0], table, "alpha", "measured", marks, "measured", band=True)
    for column, label, look in (
        ("mse_alpha", r"given the true $\alpha$", Look(TRUE_COLOUR, "-", "o")),
        ("mse_auc", r"given the AUC for $\alpha$", Look(FALSE_COLOUR, "--", "s")),
    ):
        curve(axes[1], table, "alpha", column, look, label, band=True)
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
