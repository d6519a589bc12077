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
from bayescl_lab.paper.simulation.figures import BAND_NOTE, LABELS, Look, curve, sized_panels
from bayescl_lab.paper.simulation.frames import (
    Record,
    Tick,
    banded,
    columns_of,
    frame,
    measured,
)
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


def empirical_densities(settings: Settings, seed: int) -> pl.DataFrame:
    """Histograms of one anchor's observations beside the densities they are drawn from.

    One anchor with 20,000 candidates at temperature 2 and a normal proposal, by accept-reject
    sampling; of the settings, only ``tau_plus`` is used.

    Returns:
        One record per alpha, class and bin: the bin's middle, the share of observations in it
        divided by its width, the standard error of that, and the closed-form density.

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the figure of empirical densities.
    """
    edges = torch.linspace(0, 6, BINS + 1, dtype=torch.float64)
    width = edges.diff()
    records: list[Record] = []
    for alpha in ALPHAS:
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
        observation = chunk.unlabeled[0].exp()
        # The map to observations is monotone, so a bin's probability is a difference of CDFs.
        score = EMPIRICAL_TEMPERATURE * edges.log()
        cdf = NormalProposals().cdf(score, torch.zeros(BINS + 1, dtype=torch.int64))
        classes = {
            TRUE_NEGATIVE: (chunk.true_negative[0], F.PairMixture.true_negatives(alpha)),
            FALSE_NEGATIVE: (~chunk.true_negative[0], F.PairMixture.false_negatives(alpha)),
        }
        for label, (member, mixture) in classes.items():
            size = int(member.sum())
            share = torch.histogram(observation[member], edges).hist / size
            expected = mixture.cdf(cdf).diff()
            columns = {
                "observation": (edges[1:] + edges[:-1]) / 2,
                "density": share / width,
                "density_error": (expected * (1 - expected) / size).sqrt() / width,
                "expected": expected / width,
            }
            records += columns_of({"alpha": alpha, "class": label, "count": size}, columns)
    return frame(records)


def draw_empirical(table: pl.DataFrame) -> Figure:
    """Histograms of observations with the closed-form densities through them."""
    title = r"Observations $e^{x/t}$ of one anchor, $t$ = 2, $N$ = 20,000, accept-reject"
    figure, axes = sized_panels(2, 2, title=title)
    for axis, panel in zip(axes, table.partition_by("alpha", maintain_order=True), strict=True):
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


def acceptance(settings: Settings, seed: int, tick: Tick = lambda _: None) -> pl.DataFrame:
    """Acceptance rates, and Kolmogorov-Smirnov tests of both samplers.

    A rate is measured ``settings.draws`` times, on 2,000 scores each time.

    Returns:
        One record per alpha and class: the share of proposals accepted, with band and standard
        error over draws, its expected value, and p-values over all scores of accept-reject against
        the closed-form CDF, inversion against it, and the two against each other.

    Reference:
        Liu et al., ICML 2024, Algorithms "AccRejetSamplingTN" and "AccRejetSamplingFN".
    """
    from scipy import stats

    proposals = NormalProposals()

    def measure(point: tuple[float, str]) -> list[Record]:
        alpha, label = point
        wanted = label == TRUE_NEGATIVE
        labels = torch.full((settings.draws, SCORES), wanted)
        source = generator(seed, "acceptance", alpha, wanted)
        drawn = sample_by_rejection(labels, proposals, alpha=alpha, generator=source)
        exact = sample_by_inversion(labels, proposals, alpha=alpha, generator=source)
        kind = F.PairMixture.true_negatives if wanted else F.PairMixture.false_negatives
        by_rejection, by_inversion = (
            kind(alpha).cdf(proposals.cdf(scores, torch.tensor(0))).flatten().numpy()
            for scores in (drawn.scores, exact)
        )
        return [
            {
                "alpha": alpha,
                "class": label,
                "scores": labels.numel(),
                **banded("rate", (SCORES / drawn.proposed.sum(dim=1).double()).tolist()),
                "expected": 1 / (2 * alpha),
                "rejection_p": float(stats.kstest(by_rejection, "uniform", method="asymp").pvalue),
                "inversion_p": float(stats.kstest(by_inversion, "uniform", method="asymp").pvalue),
                "both_p": float(stats.ks_2samp(by_rejection, by_inversion, method="asymp").pvalue),
            }
        ]

    return measured([(alpha, label) for alpha in STEPS for label in COLOURS], measure, tick)


def draw_acceptance(table: pl.DataFrame) -> Figure:
    """Acceptance rates against their closed form."""
    figure, (axis,) = sized_panels(1, 1, title="Acceptance rate of the accept-reject samplers")
    for (label, colour), marker in zip(COLOURS.items(), "ox", strict=True):
        here = table.filter(pl.col("class") == label)
        if label == TRUE_NEGATIVE:
            curve(axis, here, "alpha", "expected", Look(NEUTRAL, ":"), r"$1/(2\alpha)$")
        curve(axis, here, "alpha", "rate", Look(colour, "none", marker), f"{label}s", band=True)
    axis.set(xlabel=LABELS["alpha"], ylabel="share of proposals accepted")
    legend_below(figure, axis, columns=3, note=BAND_NOTE.replace("line", "marks"))
    return figure


def independent_pair_auc(alpha: float) -> float:
    """The AUC of independently drawn positives and true negatives, in [1/2, 5/6].

    Example:
        >>> round(independent_pair_auc(0.9), 4), round(independent_pair_auc(1.0), 4)
        (0.7667, 0.8333)
    """
    return 0.5 + (2 * check_interval("alpha", alpha, 0.5, 1.0) - 1) / 3


def pair_order(settings: Settings, seed: int, tick: Tick = lambda _: None) -> pl.DataFrame:
    """Measure the AUC at each alpha, and the cost of using it as alpha.

    Returns:
        One record per alpha: the measured share of independent pairs in which the positive
        outscores the true negative, its closed form, and the MSE of the Bayesian estimator
        (mid-ranks) with the true alpha and with the AUC in its place, on the same draws.
    """

    def measure(alpha: float) -> list[Record]:
        here = replace(settings, alpha=alpha)
        auc = independent_pair_auc(alpha)
        labels = torch.tensor([[True, False]]).repeat(1, PAIRS)
        shares = []
        for index in range(settings.draws):
            source = generator(seed, "pairs", alpha, index)
            scores = sample_by_inversion(labels, NormalProposals(), alpha=alpha, generator=source)
            negative, positive = scores.view(-1, 2).unbind(dim=1)
            shares.append(float((positive > negative).double().mean()))
        errors = {
            name: [
                one_draw(here, generator(seed, "assumed", alpha, index), assumed=assumed).error[
                    "bayesian_mid"
                ]
                for index in range(settings.draws)
            ]
            for name, assumed in (("mse_alpha", alpha), ("mse_auc", auc))
        }
        record: Record = {"alpha": alpha, "closed_form": auc, **banded("measured", shares)}
        for name, values in errors.items():
            record |= banded(name, values)
        return [record]

    return measured([float(alpha) for alpha in SWEEPS["alpha"]], measure, tick)


def draw_pair_order(table: pl.DataFrame) -> Figure:
    """The AUC of independent pairs, and the error of an estimator that takes it for alpha."""
    figure, axes = sized_panels(1, 2, title=r"What $\alpha$ is not: the AUC of independent pairs")
    curve(axes[0], table, "alpha", "alpha", Look(NEUTRAL, ":"), r"if AUC were $\alpha$")
    closed = r"$1/2 + (2\alpha - 1)/3$"
    curve(axes[0], table, "alpha", "closed_form", Look("#000000"), closed, lw=1)
    marks = Look(TRUE_COLOUR, "none", "o")
    curve(axes[0], table, "alpha", "measured", marks, "measured", band=True)
    axes[0].set(xlabel=LABELS["alpha"], ylabel="AUC of independent pairs")
    for column, label, look in (
        ("mse_alpha", r"given the true $\alpha$", Look(TRUE_COLOUR, "-", "o")),
        ("mse_auc", r"given the AUC for $\alpha$", Look(FALSE_COLOUR, "--", "s")),
    ):
        curve(axes[1], table, "alpha", column, look, label, band=True)
    axes[1].set(xlabel=LABELS["alpha"], ylabel="MSE of the Bayesian estimator", ylim=(0, None))
    for axis in axes:
        legend_under(axis)
    return figure
