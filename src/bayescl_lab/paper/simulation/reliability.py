"""Lemma 1: does the posterior say how often a candidate is a true negative?"""

from __future__ import annotations

from dataclasses import replace

import torch

from bayescl import functional as F
from bayescl.axes import Float, Tensor
from bayescl.functional.ranks import EXACT_RANKS, Ranks
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.process import Observations, observe
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.sweeps import Tick
from bayescl_lab.paper.simulation.tables import Table, Value

BINS = 16
FEW_CANDIDATES = 8
OTHER_MIXTURES = ((0.7, 0.3), (1.0, 0.5))
"""Pairs of alpha and tau_plus measured besides the settings' own."""


def reliability(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Compare the posterior with the frequency of true negatives, in bins of equal rank.

    Each anchor's candidates are split by rank into 16 groups (fewer if there are fewer candidates),
    whose members have nearly equal posteriors.

    Args:
        settings: the process. Two other pairs of ``alpha`` and ``tau_plus`` are measured too,
            and all three also with 8 candidates.
        seed: seed of the run.
        tick: called after each setting.

    Returns:
        One record per setting, kind of ranks and bin: the mean posterior, the share of true
        negatives with its band over draws and standard error, and their difference ``excess``
        (share less posterior).

    Example:
        >>> table = reliability(Settings(anchors=50, draws=2), seed=0)
        >>> table.distinct("ranks")
        ['mid', 'upper']

    Reference:
        Liu et al., ICML 2024, Lemma 1 and Eq. "poster".
    """
    mixtures = [(settings.alpha, settings.tau_plus), *OTHER_MIXTURES]
    points = [
        replace(settings, alpha=alpha, tau_plus=tau_plus, candidates=candidates, beta=0.5)
        for candidates in dict.fromkeys((settings.candidates, FEW_CANDIDATES))
        for alpha, tau_plus in dict.fromkeys(mixtures)
    ]
    records: list[dict[str, Value]] = []
    for point, some in zip(points, in_parallel(lambda p: _records(p, seed), points), strict=True):
        records += some
        tick(f"N = {point.candidates}, alpha = {point.alpha:g}, tau_plus = {point.tau_plus:g}")
    return Table.of(records)


def _records(settings: Settings, seed: int) -> list[dict[str, Value]]:
    """All bins of one setting, for both kinds of ranks."""
    draws: list[dict[str, tuple[Tensor, Tensor]]] = []
    for index in range(settings.draws):
        path = ("reliability", settings.alpha, settings.tau_plus, settings.candidates, index)
        chunks = list(observe(settings, generator(seed, *path)))
        orders = [chunk.unlabeled.argsort(dim=1) for chunk in chunks]
        draws.append({ranks: _bins(chunks, orders, settings, ranks) for ranks in EXACT_RANKS})
    records = []
    for ranks in EXACT_RANKS:
        predicted = torch.stack([drawn[ranks][0] for drawn in draws])
        share = torch.stack([drawn[ranks][1] for drawn in draws])
        for column in range(share.shape[1]):
            found = spread(share[:, column])
            posterior = float(predicted[:, column].mean())
            record: dict[str, Value] = {
                "alpha": settings.alpha,
                "tau_plus": settings.tau_plus,
                "candidates": settings.candidates,
                "ranks": ranks,
                "bin": column + 1,
                "posterior": posterior,
                "share": found.mean,
                "share_low": found.low,
                "share_high": found.high,
                "share_error": found.error,
                "excess": found.mean - posterior,
            }
            records.append(record)
    return records


def _bins(
    chunks: list[Observations], orders: list[Tensor], settings: Settings, ranks: Ranks
) -> tuple[Float[Tensor, " bins"], Float[Tensor, " bins"]]:
    """Mean posterior and share of true negatives by group of ranks."""
    posteriors, labels = [], []
    for chunk, order in zip(chunks, orders, strict=True):
        cdf = F.empirical_cdf(chunk.unlabeled, ranks=ranks)
        proposal = F.proposal_cdf(cdf, alpha=settings.alpha, tau_plus=settings.tau_plus)
        posterior = F.posterior(proposal, alpha=settings.alpha, tau_plus=settings.tau_plus)
        posteriors.append(posterior.gather(1, order))
        labels.append(chunk.true_negative.gather(1, order).double())
    groups = min(BINS, settings.candidates)
    predicted, share = (
        torch.stack([part.mean() for part in torch.cat(rows).tensor_split(groups, dim=1)])
        for rows in (posteriors, labels)
    )
    return predicted, share
