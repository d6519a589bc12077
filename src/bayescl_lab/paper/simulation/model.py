r"""Checks of the model itself: its samplers, and what alpha means in it.

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
from bayescl.checks import check_interval
from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.curves import ALPHAS
from bayescl_lab.paper.simulation.figures import (
    BAND_NOTE,
    LABELS,
    Look,
    curve,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Experiment, Record, banded, columns_of, with_error
from bayescl_lab.paper.simulation.process import (
    NormalProposals,
    Settings,
    generator,
    observe,
    sample_by_inversion,
    sample_by_rejection,
)
from bayescl_lab.paper.simulation.sweeps import SWEEPS, one_draw

TRUE_NEGATIVE, FALSE_NEGATIVE = "true negative", "false negative"
COLOURS = {TRUE_NEGATIVE: TRUE_COLOUR, FALSE_NEGATIVE: FALSE_COLOUR}

BINS = 60
EMPIRICAL_TEMPERATURE, EMPIRICAL_CANDIDATES = 2.0, 20_000
SCORES = 2000
"""Scores per draw, class and alpha of the measured acceptance rates."""
STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
PAIRS = 20_000
"""Independent pairs per draw and alpha."""
UNLIKELY = 0.001
"""A p-value below this speaks against a sampler."""


def empirical_densities(settings: Settings, seed: int) -> list[Record]:
    """Histograms of one anchor's observations beside the densities they are drawn from.

    One anchor with 20,000 candidates at temperature 2 and a normal proposal, by accept-reject
    sampling; of the settings, only alpha and ``tau_plus`` are used.

    Returns:
        One record per class and bin: the bin's middle, the share of observations in it divided by
        its width, the standard error of that, and the closed-form density.

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the figure of empirical densities.
    """
    alpha = settings.alpha
    edges = torch.linspace(0, 6, BINS + 1, dtype=torch.float64)
    width = edges.diff()
    point = Settings(
        anchors=1,
        candidates=EMPIRICAL_CANDIDATES,
        alpha=alpha,
        tau_plus=settings.tau_plus,
        temperature=EMPIRICAL_TEMPERATURE,
        proposal="normal",
        sampler="accept-reject",
    )
    (chunk,) = observe(point, generator(seed, "empirical", alpha))
    observation, true_negative = chunk.unlabeled[0].exp(), chunk.true_negative[0]
    # The map to observations is monotone, so a bin's probability is a difference of CDFs.
    score = EMPIRICAL_TEMPERATURE * edges.log()
    cdf = NormalProposals().cdf(score, torch.zeros(BINS + 1, dtype=torch.int64))
    records: list[Record] = []
    for label, member, class_cdf in (
        (TRUE_NEGATIVE, true_negative, F.PairMixture.true_negatives(alpha).cdf(cdf)),
        (FALSE_NEGATIVE, ~true_negative, F.PairMixture.false_negatives(alpha).cdf(cdf)),
    ):
        size, expected = int(member.sum()), class_cdf.diff()
        columns = {
            "observation": (edges[1:] + edges[:-1]) / 2,
            "density": torch.histogram(observation[member], edges).hist / size / width,
            "density_error": (expected * (1 - expected) / size).sqrt() / width,
            "expected": expected / width,
        }
        records += columns_of({"alpha": alpha, "class": label, "count": size}, columns)
    return records


def draw_empirical(table: pl.DataFrame) -> Figure:
    """Histograms of observations with the closed-form densities through them."""
    title = r"Observations $e^{x/t}$ of one anchor, $t$ = 2, $N$ = 20,000, accept-reject"
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


def acceptance(point: tuple[float, str, int], seed: int) -> list[Record]:
    """The acceptance rate of one alpha and class, and tests of both samplers.

    A rate is measured once for each draw, on 2,000 scores each time.

    Returns:
        One record: the share of proposals accepted, with band and standard error over draws, its
        expected value, and p-values of Kolmogorov-Smirnov tests over all scores: accept-reject
        against the closed-form CDF, inversion against it, and the two against each other.

    Reference:
        Liu et al., ICML 2024, Algorithms "AccRejetSamplingTN" and "AccRejetSamplingFN".
    """
    from scipy import stats

    alpha, label, draws = point
    wanted, proposals = label == TRUE_NEGATIVE, NormalProposals()
    labels = torch.full((draws, SCORES), wanted)
    source = generator(seed, "acceptance", alpha, wanted)
    drawn, proposed = sample_by_rejection(labels, proposals, alpha=alpha, generator=source)
    exact = sample_by_inversion(labels, proposals, alpha=alpha, generator=source)
    kind = F.PairMixture.true_negatives if wanted else F.PairMixture.false_negatives
    by_rejection, by_inversion = (
        kind(alpha).cdf(proposals.cdf(scores, torch.tensor(0))).flatten().numpy()
        for scores in (drawn, exact)
    )
    return [
        {
            "alpha": alpha,
            "class": label,
            "scores": labels.numel(),
            **banded("rate", (SCORES / proposed.sum(dim=1).double()).tolist()),
            "expected": 1 / (2 * alpha),
            "rejection_p": float(stats.kstest(by_rejection, "uniform", method="asymp").pvalue),
            "inversion_p": float(stats.kstest(by_inversion, "uniform", method="asymp").pvalue),
            "both_p": float(stats.ks_2samp(by_rejection, by_inversion, method="asymp").pvalue),
        }
    ]


def draw_acceptance(table: pl.DataFrame) -> Figure:
    """Acceptance rates against their closed form."""
    figure, (axis,) = sized_panels(1, 1, title="Acceptance rate of the accept-reject samplers")
    expected = table.filter(pl.col("class") == TRUE_NEGATIVE)
    curve(axis, expected, "alpha", "expected", Look(NEUTRAL, ":"), r"$1/(2\alpha)$")
    for (label, colour), marker in zip(COLOURS.items(), "ox", strict=True):
        here = table.filter(pl.col("class") == label)
        curve(axis, here, "alpha", "rate", Look(colour, "none", marker), f"{label}s", band=True)
    axis.set(xlabel=LABELS["alpha"], ylabel="share of proposals accepted")
    legend_below(figure, axis, columns=3, note=BAND_NOTE.replace("line", "marks"))
    return figure


def acceptance_finding(table: pl.DataFrame) -> str:
    """Do both samplers draw from the model?"""
    judged = []
    for name, column in (("Accept-reject", "rejection_p"), ("inversion", "inversion_p")):
        lowest = min(table[column])
        follows = "follows" if lowest > UNLIKELY else "does NOT follow"
        judged.append(
            f"{name} {follows} the closed form (smallest of {len(table)} p-values {lowest:.3f})"
        )
    return f"{' and '.join(judged)}."


def independent_pair_auc(alpha: float) -> float:
    """The AUC of independently drawn positives and true negatives, in [1/2, 5/6].

    Example:
        >>> round(independent_pair_auc(0.9), 4), round(independent_pair_auc(1.0), 4)
        (0.7667, 0.8333)
    """
    return 0.5 + (2 * check_interval("alpha", alpha, 0.5, 1.0) - 1) / 3


def pair_order(settings: Settings, seed: int) -> list[Record]:
    """Measure the AUC at an alpha, and the cost of using it as alpha.

    Returns:
        One record: the measured share of independent pairs in which the positive outscores the
        true negative, its closed form, and the MSE of the Bayesian estimator (mid-ranks) with the
        true alpha and with the AUC in its place, on the same draws.
    """
    alpha, auc = settings.alpha, independent_pair_auc(settings.alpha)
    labels = torch.tensor([[True, False]]).repeat(1, PAIRS)
    shares = []
    errors: dict[str, list[float]] = {"mse_alpha": [], "mse_auc": []}
    for index in range(settings.draws):
        source = generator(seed, "pairs", alpha, index)
        scores = sample_by_inversion(labels, NormalProposals(), alpha=alpha, generator=source)
        negative, positive = scores.view(-1, 2).unbind(dim=1)
        shares.append(float((positive > negative).double().mean()))
        for name, assumed in (("mse_alpha", alpha), ("mse_auc", auc)):
            drawn = one_draw(settings, generator(seed, "assumed", alpha, index), assumed=assumed)
            errors[name].append(drawn.error["bayesian_mid"])
    record: Record = {"alpha": alpha, "closed_form": auc, **banded("measured", shares)}
    for name, values in errors.items():
        record |= banded(name, values)
    return [record]


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


EXPERIMENTS = (
    Experiment(
        "empirical",
        "histograms of 20,000 observations beside these densities",
        empirical_densities,
        draw_empirical,
        points=lambda settings: [replace(settings, alpha=alpha, beta=0.5) for alpha in ALPHAS],
    ),
    Experiment(
        "acceptance",
        "acceptance rates and Kolmogorov-Smirnov tests of the samplers",
        acceptance,
        draw_acceptance,
        acceptance_finding,
        lambda settings: [(alpha, label, settings.draws) for alpha in STEPS for label in COLOURS],
    ),
    Experiment(
        "pair-order",
        "alpha against the AUC of independent pairs",
        pair_order,
        draw_pair_order,
        pair_order_finding,
        lambda settings: [replace(settings, alpha=float(alpha)) for alpha in SWEEPS["alpha"]],
    ),
)
