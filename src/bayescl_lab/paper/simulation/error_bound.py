r"""Lemma 3: does the error of the Bayesian loss stay under its bound?

The lemma bounds the expected absolute difference between the loss with the estimated mean
:math:`\hat\theta` of true negatives and the same loss with its expectation :math:`\theta`,

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
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from bayescl.checks import check_count, check_interval
from bayescl.functional import bayesian_loss
from bayescl.functional.ranks import EXACT_RANKS
from bayescl_lab.paper.simulation.convergence import CANDIDATES
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.process import observe
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.sweeps import Tick
from bayescl_lab.paper.simulation.tables import Table, Value
from bayescl_lab.paper.simulation.truth import true_negative_mean

ALPHAS = (0.5, 0.9, 1.0)
PRIORS = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
MEASURED = tuple(f"bayesian_{ranks}" for ranks in EXACT_RANKS)
SCORES, FEWEST_ANCHORS = 2**15, 50
"""Largest number of scores in a draw, but with at least this many anchors."""


def stated_bound(candidates: int, tau_plus: float) -> float:
    r"""The bound of Lemma 3 as stated, :math:`\tau^-\sqrt{2\pi/N}`.

    Raises:
        ValueError: if ``candidates`` is below 1 or ``tau_plus`` leaves (0, 1).

    Example:
        >>> round(stated_bound(64, 0.1), 4)
        0.282
    """
    check_count("candidates", candidates, 1)
    check_interval("tau_plus", tau_plus, 0.0, 1.0, open_low=True, open_high=True)
    return (1 - tau_plus) * math.sqrt(2 * math.pi / candidates)


def mended_bound(candidates: int, tau_plus: float) -> float:
    r"""The bound that the proof gives with its two slips corrected.

    It still treats weights as constants; their dependence on ranks is beyond the proof.

    Raises:
        ValueError: if ``candidates`` is below 1 or ``tau_plus`` leaves (0, 1).

    Example:
        >>> round(mended_bound(64, 0.1), 4)
        1.1122
    """
    stated = stated_bound(candidates, tau_plus)
    return stated * (math.e**2 - 1) / 2 / (1 - tau_plus) ** 2


def error_bound(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Measure the error of the Bayesian loss beside both bounds.

    Every anchor's scores lie in [-1, 1] at temperature 1, as the lemma assumes, with a uniform
    proposal over the whole interval, the widest of the family. The error is measured over numbers
    of candidates at the settings' ``tau_plus``, and over priors at the settings' number of
    candidates.

    Args:
        settings: ``candidates``, ``tau_plus``, ``anchors``, ``positives`` and ``draws`` are used.
        seed: seed of the run.
        tick: called after each point.

    Returns:
        One record per axis (``"candidates"`` or ``"tau_plus"``), alpha, point and estimator: the
        mean absolute error of the loss, averaged over draws, with band and standard error, and
        the bounds.

    Reference:
        Liu et al., ICML 2024, Lemma 3 and its proof.
    """
    lemma = replace(settings, proposal="script", gamma=0.0, temperature=1.0, beta=0.5)
    points = []
    for alpha in ALPHAS:
        here = replace(lemma, alpha=alpha)
        points += [("candidates", _smaller(replace(here, candidates=n))) for n in CANDIDATES]
        points += [("tau_plus", _smaller(replace(here, tau_plus=prior))) for prior in PRIORS]
    records: list[dict[str, Value]] = []
    found = in_parallel(lambda point: _records(*point, seed), points)
    for (_, point), some in zip(points, found, strict=True):
        records += some
        tick(f"alpha = {point.alpha:g}, N = {point.candidates}, tau_plus = {point.tau_plus:g}")
    return Table.of(records)


def _smaller(settings: Settings) -> Settings:
    """The settings, with fewer anchors if there are many candidates."""
    most = max(FEWEST_ANCHORS, SCORES // settings.candidates)
    return replace(settings, anchors=min(settings.anchors, most))


def _records(axis: str, settings: Settings, seed: int) -> list[dict[str, Value]]:
    """Both kinds of ranks at one point."""
    errors: dict[str, list[float]] = {name: [] for name in MEASURED}
    count = settings.candidates
    for index in range(settings.draws):
        path = ("bound", settings.alpha, settings.tau_plus, count, index)
        sums = dict.fromkeys(MEASURED, 0.0)
        for chunk in observe(settings, generator(seed, *path)):
            truth = true_negative_mean(
                chunk.proposals,
                len(chunk.unlabeled),
                alpha=settings.alpha,
                temperature=settings.temperature,
            )
            positive = chunk.positives[:, 0]
            limit = torch.log1p(count * truth / positive.exp())
            for name, ranks in zip(MEASURED, EXACT_RANKS, strict=True):
                loss = bayesian_loss(
                    positive,
                    chunk.unlabeled,
                    alpha=settings.alpha,
                    beta=settings.beta,
                    tau_plus=settings.tau_plus,
                    ranks=ranks,
                )
                sums[name] += float((loss - limit).abs().sum())
        for name in MEASURED:
            errors[name].append(sums[name] / settings.anchors)
    records = []
    for name, values in errors.items():
        spreads = spread(torch.tensor(values, dtype=torch.float64))
        record: dict[str, Value] = {
            "axis": axis,
            "alpha": settings.alpha,
            "tau_plus": settings.tau_plus,
            "candidates": count,
            "anchors": settings.anchors,
            "estimator": name,
            "error": spreads.mean,
            "error_low": spreads.low,
            "error_high": spreads.high,
            "error_error": spreads.error,
            "bound": stated_bound(count, settings.tau_plus),
            "mended_bound": mended_bound(count, settings.tau_plus),
        }
        records.append(record)
    return records
