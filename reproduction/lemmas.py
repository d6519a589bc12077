r"""The paper's lemmas, and its comparison of estimators, on the generative process.

Lemma 3 bounds the mean absolute difference between the Bayesian loss and the loss with
the expected mean of true negatives, for embeddings of length 1 at temperature 1:

.. math::
    \tau^-\sqrt{2\pi/N}.

Its proof takes the range of ``e^cos`` to be ``[-1/e, 1/e]``; it is ``[1/e, e]``. With
``c_i = 2 / (N e tau_minus)``, the exponent of McDiarmid's inequality has ``tau_minus ** 2`` as a
factor, not as a divisor. :func:`corrected_bound` has both steps corrected. Both bounds treat
weights as constants.

Reference:
    Liu et al., ICML 2024, Lemmas 1 to 3 and their proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from bayescl import functional as F
from reproduction.experiments import SCHEMA, SWEPT, Row, draw, one_draw, points_of
from reproduction.process import (
    Observations,
    Proposal,
    Quantile,
    Settings,
    levels_of,
    mean_and_error,
    observe,
    over_draws,
)

SEED = 0
RANKS = ("upper", "mid")
BINS = 16
"""Groups of candidates with similar ranks, in which Lemma 1 is measured."""
MIXTURES = ((0.9, 0.1), (0.7, 0.3), (1.0, 0.5))
"""Values of alpha and tau_plus at which Lemma 1 is measured."""
COUNTS = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
ALPHAS = (0.5, 0.9, 1.0)
PRIORS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
PROPOSALS: tuple[Proposal, ...] = ("slide", "script")
CLEAR = 2
"""Standard errors from which a difference of errors counts."""
NODES = 96
"""Points of the Gauss-Legendre rule. For uniform proposals it is exact up to rounding."""

Record = dict[str, Any]


def stated_bound(candidates: int, tau_plus: float) -> float:
    """Return the bound of Lemma 3 as printed."""
    return (1 - tau_plus) * math.sqrt(2 * math.pi / candidates)


def corrected_bound(candidates: int, tau_plus: float) -> float:
    """Return the bound of Lemma 3 with both steps of the proof corrected."""
    return (math.e**2 - 1) / (1 - tau_plus) * math.sqrt(math.pi / (2 * candidates))


def true_negative_mean(
    quantile: Quantile, anchors: int, *, alpha: float, temperature: float
) -> Float[Tensor, " anchors"]:
    r"""Compute the expected observation of the true negatives of each anchor.

    With :math:`u = \Phi(x)` the expectation is an integral over the unit interval,

    .. math::
        \theta = \int_0^1 e^{\Phi^{-1}(u)/t}\,\frac{\phi_{TN}}{\phi}(u)\,du.

    Reference:
        Liu et al., ICML 2024, the target of Eq. "sumtn".
    """
    nodes, shares = map(torch.from_numpy, np.polynomial.legendre.leggauss(NODES))
    level, share = (nodes + 1) / 2, shares / 2
    score = quantile(level.expand(anchors, NODES))
    ratio = F.PairMixture.true_negatives(alpha).density(torch.ones_like(level), level)
    return (torch.exp(score / temperature) * ratio * share).sum(dim=1)


def losses_of(chunk: Observations, settings: Settings, ranks: Any) -> Float[Tensor, " anchors"]:
    """Compute the Bayesian loss of each anchor with its first positive."""
    objective = F.Bayesian(settings.alpha, settings.beta, settings.tau_plus, ranks)
    return objective(chunk.positives[:, 0], chunk.unlabeled)


def means_and_errors(
    measure: Callable[[Observations, torch.Generator], Iterable[Tensor]],
    settings: Settings,
    *path: object,
) -> tuple[Tensor, Tensor]:
    """Measure every draw of the process; return means and standard errors over draws.

    ``measure`` returns values ``[anchors]`` or ``[anchors, bins]`` of the anchors of a chunk.
    """

    def draw(source: torch.Generator) -> Tensor:
        chunks = [torch.stack([*measure(it, source)]) for it in observe(settings, source)]
        return torch.cat(chunks, dim=1).mean(dim=1)

    return mean_and_error(torch.stack(over_draws(draw, settings, SEED, *path)))


def lemma_1(settings: Settings) -> list[Record]:
    """Compare the posterior with the share of true negatives, in bins of similar rank."""
    alpha, tau_plus, count = settings.alpha, settings.tau_plus, settings.candidates
    records = []
    for ranks in RANKS:

        def measure(chunk: Observations, _: torch.Generator, ranks: Any = ranks) -> list[Tensor]:
            order = chunk.unlabeled.argsort(dim=1)
            cdf = F.empirical_cdf(chunk.unlabeled, ranks=ranks)
            proposal = F.proposal_cdf(cdf, alpha=alpha, tau_plus=tau_plus)
            posterior = F.posterior(proposal, alpha=alpha, tau_plus=tau_plus)
            sides = posterior, chunk.true_negative.double()
            bins = (side.gather(1, order).tensor_split(min(BINS, count), dim=1) for side in sides)
            return [torch.stack([part.mean(dim=1) for part in parts], dim=1) for parts in bins]

        path = "lemma 1", alpha, count
        (posterior, share), (_, error) = means_and_errors(measure, settings, *path)
        known = {"alpha": alpha, "tau_plus": tau_plus, "candidates": count, "ranks": ranks}
        for number, (expected, found, spread) in enumerate(
            zip(posterior.tolist(), share.tolist(), error.tolist(), strict=True), start=1
        ):
            own = {"bin": number, "posterior": expected, "share": found, "share_error": spread}
            records.append(known | own | {"excess": found - expected})
    return records


def lemma_2(settings: Settings) -> list[Record]:
    """Measure the difference of losses from the supervised loss, in nats.

    The supervised loss has the same anchor and positive, and as many candidates, all of them true
    negatives that are drawn separately. With many candidates, a draw has fewer anchors.
    """
    count = settings.candidates
    settings = replace(settings, anchors=min(settings.anchors, max(1, 2**17 // count)))

    def measure(chunk: Observations, source: torch.Generator) -> list[Tensor]:
        everyone = torch.ones_like(chunk.true_negative)
        level = levels_of(everyone, alpha=settings.alpha, generator=source)
        positive = chunk.positives[:, 0]
        supervised = F.info_nce_loss(positive, chunk.quantile(level) / settings.temperature)
        losses = [losses_of(chunk, settings, ranks) for ranks in RANKS]
        biased = F.info_nce_loss(positive, chunk.unlabeled)
        return [loss - supervised for loss in (*losses, biased)]

    names = (*(f"bayesian_{ranks}" for ranks in RANKS), "biased")
    gaps, errors = means_and_errors(measure, settings, "lemma 2", count)
    return [
        {"candidates": count, "loss": name, "gap": gap, "gap_error": error}
        for name, gap, error in zip(names, gaps.tolist(), errors.tolist(), strict=True)
    ]


def lemma_3(settings: Settings) -> list[Record]:
    """Measure the mean absolute error of the Bayesian loss beside both bounds.

    Scores lie in [-1, 1] at temperature 1, as the lemma assumes, with a uniform proposal.
    """
    lemma: Any = {"proposal": "script", "gamma": 0.0, "temperature": 1.0, "beta": 0.5}
    count, alpha, prior = settings.candidates, settings.alpha, settings.tau_plus
    anchors = min(settings.anchors, max(50, 2**15 // count))
    settings = replace(settings, **lemma, anchors=anchors)

    def measure(chunk: Observations, _: torch.Generator) -> list[Tensor]:
        size = len(chunk.unlabeled)
        truth = true_negative_mean(chunk.quantile, size, alpha=alpha, temperature=1.0)
        limit = torch.log1p(count * truth / chunk.positives[:, 0].exp())
        return [(losses_of(chunk, settings, ranks) - limit).abs() for ranks in RANKS]

    found, spread = means_and_errors(measure, settings, "lemma 3", alpha, prior, count)
    known = {"alpha": alpha, "tau_plus": prior, "candidates": count}
    bounds = {"bound": stated_bound(count, prior), "corrected_bound": corrected_bound(count, prior)}
    return [
        {**known, "ranks": ranks, "error": error, "error_error": its_error, **bounds}
        for ranks, error, its_error in zip(RANKS, found.tolist(), spread.tolist(), strict=True)
    ]


def comparisons(settings: Settings, parameter: str) -> list[Record]:
    """Compare the mean squared errors of estimators at one point of a sweep, paired by draw."""
    value = getattr(settings, parameter)
    path = ("comparison", settings.proposal, parameter, value)
    draws = over_draws(partial(one_draw, settings), settings, SEED, *path)
    records = []
    for ranks, rival in product(RANKS, ("biased", "debiased")):
        own = f"bayesian_{ranks}"
        mean, error = mean_and_error([draw[own]["mse"] - draw[rival]["mse"] for draw in draws])
        verdict = "below" if mean < -CLEAR * error else "above" if mean > CLEAR * error else "tied"
        known = {"proposal": settings.proposal, "parameter": parameter, "value": value}
        records.append({**known, "estimator": own, "rival": rival, "verdict": verdict})
    return records


def measured(settings: Settings) -> dict[str, list[Record]]:
    """Return all records."""
    points_1 = [
        replace(settings, alpha=alpha, tau_plus=tau_plus, candidates=count)
        for count, (alpha, tau_plus) in product((settings.candidates, 8), MIXTURES)
    ]
    points_2 = [replace(settings, candidates=count) for count in COUNTS]
    priors = [prior for prior in PRIORS if prior != settings.tau_plus]
    by_prior = [replace(settings, tau_plus=prior) for prior in priors]
    points_3 = [replace(it, alpha=alpha) for alpha in ALPHAS for it in (*points_2, *by_prior)]
    sweeps = [points_of(replace(settings, proposal=proposal), SWEPT) for proposal in PROPOSALS]
    return {
        "lemma_1": [record for point in points_1 for record in lemma_1(point)],
        "lemma_2": [record for point in points_2 for record in lemma_2(point)],
        "lemma_3": [record for point in points_3 for record in lemma_3(point)],
        "comparisons": [
            record for sweep in sweeps for name, it in sweep for record in comparisons(it, name)
        ],
    }


def lemma_3_figure(records: list[Record], settings: Settings) -> Figure:
    """Plot the error with upper ranks and both bounds, by candidates and by prior."""
    rows = list[Row]()
    for swept, other in (("candidates", "tau_plus"), ("tau_plus", "candidates")):
        fixed = {"ranks": "upper", other: getattr(settings, other)}
        shown = [it for it in records if fixed.items() <= it.items()]
        for record in sorted(shown, key=lambda it: (it["alpha"], it[swept])):
            name = f"error, alpha = {record['alpha']:g}"
            rows.append(Row(swept, name, record[swept], record["error"]))
            if record["alpha"] == ALPHAS[-1]:
                bounds = ("bound", "corrected_bound")
                rows += [Row(swept, it, record[swept], record[it]) for it in bounds]
    table = pl.DataFrame(rows, SCHEMA, orient="row")
    title = "Error of the Bayesian loss, and the bounds of Lemma 3"
    return draw(table, title, "mean |error| of the loss, nats", "", is_error=True)
