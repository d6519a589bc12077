r"""The three lemmas, measured.

By lemma 1 the posterior says how often a candidate is a true negative, and by lemma 2 the Bayesian
loss approaches the supervised loss with more candidates. Lemma 3 bounds the expected absolute
difference between the loss with the estimated mean :math:`\hat\theta` of true negatives and the
same loss with its expectation :math:`\theta`,

.. math::
    \mathbb{E}\,\Bigl|\log\frac{e^{s^+} + N\hat\theta}{e^{s^+} + N\theta}\Bigr|
    \;\le\; \tau^-\sqrt{2\pi/N},

for unit-length embeddings at temperature 1, where observations lie in :math:`[1/e, e]`.

Two steps of its proof do not hold as printed. It takes that range to be :math:`[-1/e, 1/e]`, of
length :math:`2/e`; its length is :math:`e - 1/e`. And with :math:`c_i = 2/(N e \tau^-)` the
exponent of McDiarmid's inequality has :math:`(\tau^-)^2` as a factor, not as a divisor, so the
bound grows with :math:`1/\tau^-` where the lemma has :math:`\tau^-`. With both steps corrected, the
bound is

.. math::
    \frac{e^2 - 1}{\tau^-}\sqrt{\frac{\pi}{2N}} .

Reference:
    Liu et al., ICML 2024, Lemmas 1 to 3 and their proofs.
"""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl import functional as F
from bayescl.axes import PerAnchor
from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, legend_below
from bayescl.functional.ranks import RANKS, Ranks
from bayescl_lab.paper.simulation.estimators import true_negative_mean
from bayescl_lab.paper.simulation.figures import (
    BAND_NOTE,
    ESTIMATORS,
    LABELS,
    LINES,
    MARKERS,
    Look,
    curve,
    estimator_curves,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Record, fitted_exponent, over_draws, with_error
from bayescl_lab.paper.simulation.process import (
    Observations,
    Settings,
    generator,
    levels_of,
    observe,
)

BINS = 16
OTHER_MIXTURES = ((0.7, 0.3), (1.0, 0.5))
"""Pairs of alpha and tau_plus at which Lemma 1 is measured besides the settings' own."""

CANDIDATES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
ALPHAS = (0.5, 0.9, 1.0)
PRIORS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
BAYESIAN = {f"bayesian_{ranks}": ranks for ranks in RANKS}


def _with_fewer_anchors(settings: Settings, scores: int, fewest: int) -> Settings:
    """The settings, with fewer anchors if there are many candidates."""
    most = max(fewest, scores // settings.candidates)
    return replace(settings, anchors=min(settings.anchors, most))


def _bayesian_loss(chunk: Observations, settings: Settings, ranks: Ranks) -> PerAnchor:
    """The Bayesian loss of each anchor with its first positive."""
    objective = F.Bayesian(settings.alpha, settings.beta, settings.tau_plus, ranks)
    return objective(chunk.positives[:, 0], chunk.unlabeled)


def mixtures(settings: Settings) -> list[Settings]:
    """The settings and two other pairs of ``alpha`` and ``tau_plus``, and all with 8 candidates."""
    pairs = [(settings.alpha, settings.tau_plus), *OTHER_MIXTURES]
    return [
        replace(settings, alpha=alpha, tau_plus=tau_plus, candidates=candidates, beta=0.5)
        for candidates in dict.fromkeys((settings.candidates, 8))
        for alpha, tau_plus in dict.fromkeys(pairs)
    ]


def shares(settings: Settings, seed: int) -> pl.DataFrame:
    """Compare the posterior with the frequency of true negatives, in bins of equal rank.

    Each anchor's candidates are split by rank into 16 groups (fewer if there are fewer candidates),
    whose members have nearly equal posteriors. ``excess`` is the share less the posterior.
    """
    alpha, tau_plus, count = settings.alpha, settings.tau_plus, settings.candidates
    rows: list[Record] = []
    for index in range(settings.draws):
        source = generator(seed, "reliability", alpha, tau_plus, count, index)
        chunks = list(observe(settings, source))
        logits = torch.cat([chunk.unlabeled for chunk in chunks])
        true_negative = torch.cat([chunk.true_negative for chunk in chunks])
        place: Record = {"alpha": alpha, "tau_plus": tau_plus, "candidates": count}
        order = logits.argsort(dim=1)
        for ranks in RANKS:
            cdf = F.empirical_cdf(logits, ranks=ranks)
            proposal = F.proposal_cdf(cdf, alpha=alpha, tau_plus=tau_plus)
            posterior = F.posterior(proposal, alpha=alpha, tau_plus=tau_plus)
            in_order = (posterior.gather(1, order), true_negative.double().gather(1, order))
            bins = (values.tensor_split(min(BINS, count), dim=1) for values in in_order)
            for number, (predicted, observed) in enumerate(zip(*bins, strict=True), start=1):
                means = {"posterior": float(predicted.mean()), "share": float(observed.mean())}
                rows.append({**place, "ranks": ranks, "bin": number, **means})
    table = over_draws(rows, "share", means=["posterior"])
    return table.with_columns(excess=pl.col("share") - pl.col("posterior"))


def draw_shares(table: pl.DataFrame) -> Figure:
    """Posterior against the share of true negatives, by number of candidates and ranks."""
    counts = table["candidates"].unique(maintain_order=True).to_list()
    figure, axes = sized_panels(2, len(counts), title="Lemma 1: posterior against frequency")
    panels = [(ranks, count) for ranks in ("upper", "mid") for count in counts]
    for axis, (ranks, count) in zip(axes, panels, strict=True):
        axis.plot([0, 1], [0, 1], color=NEUTRAL, ls=":", lw=1.2, label="exact")
        here = table.filter(candidates=count, ranks=ranks)
        for part, colour, marker in zip(
            parts_of(here, "alpha", "tau_plus"), LEVELS, MARKERS, strict=False
        ):
            label = rf"$\alpha$ = {part['alpha'][0]:g}, $\tau^+$ = {part['tau_plus'][0]:g}"
            look = Look(colour, "none", marker)
            curve(axis, part, "posterior", "share", look, label, spread="bars")
        name = {"upper": "upper ranks", "mid": "mid-ranks"}[ranks]
        axis.set(title=f"{name}, $N$ = {count}", xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        axis.set(xlabel="posterior of a true negative", ylabel="share of true negatives")
    legend_below(figure, axes[0], note="bars: 5 % to 95 % quantiles over draws")
    return figure


def shares_finding(table: pl.DataFrame) -> str:
    """How far is the posterior from the frequency of true negatives?"""
    worst = table.group_by("ranks", "candidates", maintain_order=True).agg(
        pl.col("excess").abs().max()
    )
    largest = [
        f"{gap:.3f} with {ranks} ranks of {candidates} candidates"
        for ranks, candidates, gap in worst.iter_rows()
    ]
    return f"Posterior and share of true negatives differ by at most {', '.join(largest)}."


def candidates(settings: Settings) -> list[Settings]:
    """The settings with every number of candidates."""
    return [replace(settings, candidates=count) for count in CANDIDATES]


def gaps(settings: Settings, seed: int) -> pl.DataFrame:
    """Measure each loss less the supervised loss.

    The supervised loss has the same number of candidates, all true negatives and drawn separately;
    the anchor and its positive are shared. The positive is the first that the process draws, and
    the only one that the debiased loss knows. With many candidates there are fewer anchors, so that
    a draw holds at most some hundred thousand scores.
    """
    settings = _with_fewer_anchors(settings, scores=2**17, fewest=1)
    place: Record = {"candidates": settings.candidates, "anchors": settings.anchors}
    rows: list[Record] = []
    for index in range(settings.draws):
        source = generator(seed, "convergence", settings.candidates, index)
        chunks = [_losses(chunk, settings, source) for chunk in observe(settings, source)]
        losses = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
        supervised = losses.pop("supervised")
        mean = float(supervised.mean())
        for name, loss in losses.items():
            gap = float((loss - supervised).mean())
            rows.append({**place, "loss": name, "gap": gap, "supervised": mean})
    table = over_draws(rows, "gap", means=["supervised"])
    return table.select(pl.exclude("supervised"), "supervised")


def _losses(
    chunk: Observations, settings: Settings, source: torch.Generator
) -> dict[str, PerAnchor]:
    """Every loss, one value per anchor."""
    all_true = torch.ones_like(chunk.true_negative)
    level = levels_of(all_true, alpha=settings.alpha, generator=source)
    negatives = chunk.quantile(level) / settings.temperature
    positive = chunk.positives[:, 0]
    debiased = F.Debiased(settings.tau_plus, -1 / settings.temperature)
    return {
        "supervised": F.info_nce_loss(positive, negatives),
        "biased": F.info_nce_loss(positive, chunk.unlabeled),
        "debiased": debiased(positive, chunk.unlabeled),
        **{name: _bayesian_loss(chunk, settings, ranks) for name, ranks in BAYESIAN.items()},
    }


def draw_gaps(table: pl.DataFrame) -> Figure:
    """Each loss less the supervised loss, over the number of candidates."""
    figure, axes = sized_panels(1, 2, title="Lemma 2: difference to the supervised loss")
    names = table["loss"].unique(maintain_order=True).to_list()
    estimator_curves(axes[0], table, names, "candidates", "gap", by="loss")
    axes[0].set(title="single draws scatter", ylabel="loss less supervised loss, nats")
    for name in names:
        here = table.filter(loss=name)
        look = ESTIMATORS[name]
        curve(axes[1], here, "candidates", "gap", look, spread="errors", capsize=2, lw=1.5)
    axes[1].set(title="mean, with two standard errors", ylim=(-0.1, 0.1))
    for axis in axes:
        axis.axhline(0, color="black", lw=0.8)
        axis.set_xscale("log", base=2)
        axis.set_xlabel(LABELS["candidates"])
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE.replace("line", "left: line"))
    return figure


def gaps_finding(table: pl.DataFrame) -> str:
    """Does the Bayesian loss tend to the supervised loss?"""
    most = table.filter(pl.col("candidates") == pl.col("candidates").max())
    gaps = [
        f"{ESTIMATORS[row['loss']].title} {with_error(row, 'gap')}" for row in most.rows(named=True)
    ]
    where = f"at N = {most['candidates'][0]}, in nats"
    return f"Difference to the supervised loss {where}: {', '.join(gaps)}."


def stated_bound(candidates: int, tau_plus: float) -> float:
    r"""The bound of Lemma 3 as stated, :math:`\tau^-\sqrt{2\pi/N}`.

    Example:
        >>> round(stated_bound(64, 0.1), 4)
        0.282
    """
    return (1 - tau_plus) * math.sqrt(2 * math.pi / candidates)


def mended_bound(candidates: int, tau_plus: float) -> float:
    """The bound that the proof gives with its two slips corrected.

    It still treats weights as constants; their dependence on ranks is beyond the proof.

    Example:
        >>> round(mended_bound(64, 0.1), 4)
        1.1122
    """
    return stated_bound(candidates, tau_plus) * (math.e**2 - 1) / 2 / (1 - tau_plus) ** 2


def bound_points(settings: Settings) -> list[tuple[str, Settings]]:
    """Numbers of candidates at the settings' prior, and priors at their number of candidates.

    Every anchor's scores lie in [-1, 1] at temperature 1, as the lemma assumes, with a uniform
    proposal over the whole interval, the widest of the family.
    """
    lemma = replace(settings, proposal="script", gamma=0.0, temperature=1.0, beta=0.5)
    points = []
    for alpha in ALPHAS:
        here = replace(lemma, alpha=alpha)
        points += [("candidates", replace(here, candidates=count)) for count in CANDIDATES]
        points += [("tau_plus", replace(here, tau_plus=prior)) for prior in PRIORS]
    return points


def errors(point: tuple[str, Settings], seed: int) -> pl.DataFrame:
    """Measure the mean absolute error of the Bayesian loss over anchors beside both bounds.

    The point names what is varied: ``"candidates"`` or ``"tau_plus"``.
    """
    axis, settings = point
    settings = _with_fewer_anchors(settings, scores=2**15, fewest=50)
    alpha, tau_plus, count = settings.alpha, settings.tau_plus, settings.candidates
    place: Record = {"axis": axis, "alpha": alpha, "tau_plus": tau_plus, "candidates": count}
    rows: list[Record] = []
    for index in range(settings.draws):
        sums = dict.fromkeys(BAYESIAN, 0.0)
        for chunk in observe(settings, generator(seed, "bound", alpha, tau_plus, count, index)):
            size, temperature = len(chunk.unlabeled), settings.temperature
            truth = true_negative_mean(chunk.quantile, size, alpha=alpha, temperature=temperature)
            limit = torch.log1p(count * truth / chunk.positives[:, 0].exp())
            for name, ranks in BAYESIAN.items():
                sums[name] += float((_bayesian_loss(chunk, settings, ranks) - limit).abs().sum())
        for name, total in sums.items():
            error = total / settings.anchors
            rows.append({**place, "anchors": settings.anchors, "estimator": name, "error": error})
    return over_draws(rows, "error").with_columns(
        bound=stated_bound(count, tau_plus), mended_bound=mended_bound(count, tau_plus)
    )


def draw_errors(table: pl.DataFrame) -> Figure:
    """The loss's error under its bound, over candidates and over priors."""
    figure, axes = sized_panels(1, 2, title="Lemma 3: error of the Bayesian loss (upper ranks)")
    fixed = {"candidates": ("tau_plus", r"\tau^+"), "tau_plus": ("candidates", "N")}
    for axis, (swept, (other, symbol)) in zip(axes, fixed.items(), strict=True):
        parts = parts_of(table.filter(axis=swept, estimator="bayesian_upper"), "alpha")
        for part, colour, line, marker in zip(parts, LEVELS, LINES, MARKERS, strict=False):
            label = rf"measured, $\alpha$ = {part['alpha'][0]:g}"
            if swept == "candidates":
                exponent = fitted_exponent(part["candidates"].to_list(), part["error"].to_list())
                label += f", falls as $N^{{{exponent:.2f}}}$"
            curve(axis, part, swept, "error", Look(colour, line, marker), label, spread="band")
        stated = r"bound as stated, $\tau^-\sqrt{2\pi/N}$"
        curve(axis, parts[0], swept, "bound", Look(FALSE_COLOUR), stated)
        mended = "bound as the mended proof gives it"
        curve(axis, parts[0], swept, "mended_bound", Look(NEUTRAL, "--"), mended)
        axis.set(xlabel=LABELS[swept], ylabel="mean |error| of the loss, nats", yscale="log")
        axis.set_title(f"${symbol}$ = {parts[0][other][0]:g}")
    axes[0].set_xscale("log", base=2)
    legend_below(figure, axes[0], columns=2, note=BAND_NOTE)
    return figure


def errors_finding(table: pl.DataFrame) -> str:
    """Does the error stay below the bounds?"""
    above = table.filter(pl.col("error") > pl.col("bound"))
    priors = ", ".join(f"{prior:g}" for prior in above["tau_plus"].unique().sort())
    mended = len(table.filter(pl.col("error") > pl.col("mended_bound")))
    where = f": it is above at tau_plus = {priors}" if priors else ""
    return (
        f"The error is below the stated bound in {len(table) - len(above)} of {len(table)} "
        f"cases{where}. It is above the corrected bound in {mended}."
    )
