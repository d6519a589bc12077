r"""Curves from formulas, without sampling: densities, the CDF transform, weights, and the jump.

The jump is in what the biased loss learns. A score that minimises it is proportional to
:math:`p^+/p_d`, not to :math:`p^+/p^-`. With :math:`\hat x^+ = m\,p^+/p_d` the desired ratio is
:math:`\hat x^+\tau^- / (m - \hat x^+\tau^+)`, which jumps from plus to minus infinity at
:math:`\hat x^+ = m/\tau^+`. But :math:`p_d = \tau^-p^- + \tau^+p^+ \ge \tau^+p^+`, so no score lies
beyond the jump: there the curve would need a negative density.
"""

from __future__ import annotations

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl import functional as F
from bayescl.axes import Float, Tensor
from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl_lab.paper.simulation.figures import LINES, Look, curve, levels, parts_of, sized_panels
from bayescl_lab.paper.simulation.frames import columns
from bayescl_lab.paper.simulation.process import Settings

ALPHAS = (0.5, 0.7, 0.9, 1.0)
LEVEL = torch.linspace(0, 1, 201, dtype=torch.float64)
FORMULA, ATTAINED = "formula", "attained"


def densities(*_: object) -> pl.DataFrame:
    """Densities of both classes' scores for a standard normal proposal, by alpha and score.

    Reference:
        Liu et al., ICML 2024, the figure of Eqs. "phitn" and "phifn".
    """
    score = torch.linspace(-4, 4, 201, dtype=torch.float64)
    density = torch.exp(-(score**2) / 2) / (2 * torch.pi) ** 0.5
    cdf = torch.special.ndtr(score)
    tables = []
    for alpha in ALPHAS:
        classes = {
            "true_negative": F.PairMixture.true_negatives(alpha).density(density, cdf),
            "false_negative": F.PairMixture.false_negatives(alpha).density(density, cdf),
        }
        tables.append(columns({"alpha": alpha, "score": score, "proposal": density, **classes}))
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
    """The proposal CDF against the CDF of unlabeled candidates, by alpha.

    Reference:
        Liu et al., ICML 2024, the figure of Eq. "cdftrans".
    """
    tables = []
    for alpha in ALPHAS:
        place = {"alpha": alpha, "tau_plus": settings.tau_plus}
        proposal = F.proposal_cdf(LEVEL, **place)
        tables.append(columns({**place, "unlabeled_cdf": LEVEL, "proposal_cdf": proposal}))
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

    Reference:
        Liu et al., ICML 2024, Eq. "ome1".
    """
    tau_plus, tables = settings.tau_plus, []
    curves = [("alpha", 0.9, beta) for beta in ALPHAS] + [("beta", alpha, 0.5) for alpha in ALPHAS]
    for fixed, alpha, beta in curves:
        proposal = F.proposal_cdf(LEVEL, alpha=alpha, tau_plus=tau_plus)
        weight = F.importance_weights(proposal, alpha=alpha, beta=beta, tau_plus=tau_plus)
        place = {"fixed": fixed, "alpha": alpha, "beta": beta, "tau_plus": tau_plus}
        tables.append(columns({**place, "unlabeled_cdf": LEVEL, "weight": weight}))
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


def density_ratio(score: Float[Tensor, "*shape"], *, tau_plus: float) -> Float[Tensor, "*shape"]:
    """The ratio :math:`p^+/p^-` for which a score :math:`p^+/p_d` minimises the biased loss.

    It is negative, hence impossible, for scores above ``1 / tau_plus``.

    Example:
        >>> density_ratio(torch.tensor([1.0, 5.0, 20.0]), tau_plus=0.1)
        tensor([ 1.,  9., -18.])

    Reference:
        Liu et al., ICML 2024, Eq. "fractional".
    """
    return score * (1 - tau_plus) / (1 - score * tau_plus)


def sampling_bias(settings: Settings, _seed: int) -> pl.DataFrame:
    """The curve with the jump, and the parts of it that the mixture model reaches.

    Rows with ``kind`` "formula" trace the curve on both sides of the jump. Those with ``kind``
    "attained" are computed from the class-conditional densities at proposal CDF 0 to 1, by alpha.

    Reference:
        Liu et al., ICML 2024, appendix "Sampling Bias Analysis".
    """
    tau_plus, jump = settings.tau_plus, 1 / settings.tau_plus
    near = torch.linspace(0, 0.99 * jump, 150, dtype=torch.float64)
    beyond = torch.linspace(1.01 * jump, 2 * jump, 150, dtype=torch.float64)
    score = torch.cat([near, beyond])

    def part(kind: str, alpha: float, score: Tensor, ratio: Tensor) -> pl.DataFrame:
        place = {"kind": kind, "alpha": alpha, "tau_plus": tau_plus}
        return columns({**place, "score": score, "ratio": ratio})

    tables = [part(FORMULA, 0.0, score, density_ratio(score, tau_plus=tau_plus))]
    # At alpha 1 the ratio is unbounded at CDF 1, so stop short of it.
    cdf = torch.linspace(0, 0.99, 100, dtype=torch.float64)
    whole = torch.ones_like(cdf)
    for alpha in ALPHAS:
        positive = F.PairMixture.false_negatives(alpha).density(whole, cdf)
        negative = F.PairMixture.true_negatives(alpha).density(whole, cdf)
        unlabeled = F.PairMixture.unlabeled(alpha, tau_plus).density(whole, cdf)
        tables.append(part(ATTAINED, alpha, positive / unlabeled, positive / negative))
    return pl.concat(tables)


def draw_sampling_bias(table: pl.DataFrame) -> Figure:
    """The curve with the jump, and how far along it the mixture model reaches."""
    tau_plus = table["tau_plus"][0]
    jump = 1 / tau_plus
    title = rf"What the biased loss's score says of $p^+/p^-$, $\tau^+$ = {tau_plus:g}"
    figure, axes = sized_panels(1, 2, title=title)
    formula = table.filter(kind=FORMULA)
    below, beyond = formula.filter(pl.col("score") < jump), formula.filter(pl.col("score") > jump)
    curve(axes[0], below, "score", "ratio", Look(NEUTRAL), "Eq. fractional")
    curve(axes[0], beyond, "score", "ratio", Look(NEUTRAL))
    axes[0].axvline(jump, color=FALSE_COLOUR, ls=":", label=r"jump at $m/\tau^+$")
    axes[0].axvspan(jump, 2 * jump, color=FALSE_COLOUR, alpha=0.1, label="no density is there")
    axes[0].set(title="the formula on both sides", ylim=(-150, 150))
    curve(axes[1], below, "score", "ratio", Look("#c3c8cf"), lw=5)
    parts = parts_of(table.filter(kind=ATTAINED), "alpha")
    looks = [Look(LEVELS[0], "none", "o"), *map(Look, LEVELS[1:], LINES[1:])]
    for here, look in reversed(list(zip(parts, looks, strict=True))):
        label = rf"reached at $\alpha$ = {here['alpha'][0]:g}"
        curve(axes[1], here, "score", "ratio", look, label, lw=2, ms=6)
    axes[1].axvline(jump, color=FALSE_COLOUR, ls=":")
    axes[1].set(title="what the mixture model reaches", xlim=(0, 1.05 * jump))
    axes[1].set(yscale="log", ylim=(0.01, 1000))
    for axis in axes:
        axis.set(xlabel=r"score $\hat{x}^+/m = p^+/p_d$", ylabel="$p^+/p^-$")
        legend_under(axis)
    return figure
