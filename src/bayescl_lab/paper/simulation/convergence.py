"""Lemma 2: does the Bayesian loss approach the supervised loss with more candidates?"""

from __future__ import annotations

from dataclasses import replace

import torch

from bayescl import functional as F
from bayescl.functional.ranks import EXACT_RANKS
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.process import Observations, observe
from bayescl_lab.paper.simulation.samplers import sample_by_inversion
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.sweeps import Tick
from bayescl_lab.paper.simulation.tables import Table, Value

CANDIDATES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
SCORES = 2**17
"""Largest number of scores in a draw."""


def convergence(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Measure each loss less the supervised loss, over numbers of candidates.

    The supervised loss has the same number of candidates, all true negatives and drawn separately;
    the anchor and its positive are shared. The positive is the first that the process draws, and
    the only one that the debiased loss knows.

    Args:
        settings: the process; ``candidates`` is replaced. With many candidates there are fewer
            anchors, so that a draw holds at most some hundred thousand scores.
        seed: seed of the run.
        tick: called after each number of candidates.

    Returns:
        One record per number of candidates and loss: the mean over anchors of its difference to
        the supervised loss, averaged over draws, with band and standard error, and the mean
        supervised loss.

    Example:
        >>> table = convergence(Settings(anchors=20, draws=2), seed=0)
        >>> table.distinct("loss")
        ['biased', 'debiased', 'bayesian_mid', 'bayesian_upper']

    Reference:
        Liu et al., ICML 2024, Lemma 2 and Eq. "SupLoss".
    """
    points = [_smaller(replace(settings, candidates=count)) for count in CANDIDATES]
    records: list[dict[str, Value]] = []
    for point, some in zip(points, in_parallel(lambda p: _records(p, seed), points), strict=True):
        records += some
        tick(f"N = {point.candidates}")
    return Table.of(records)


def _smaller(settings: Settings) -> Settings:
    """The settings, with fewer anchors if there are many candidates."""
    most = max(1, SCORES // settings.candidates)
    return replace(settings, anchors=min(settings.anchors, most))


def _records(settings: Settings, seed: int) -> list[dict[str, Value]]:
    """All losses at one number of candidates."""
    gaps: dict[str, list[float]] = {}
    supervised = []
    for index in range(settings.draws):
        source = generator(seed, "convergence", settings.candidates, index)
        chunks = [_losses(chunk, settings, source) for chunk in observe(settings, source)]
        losses = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
        reference = losses.pop("supervised")
        supervised.append(float(reference.mean()))
        for name, loss in losses.items():
            gaps.setdefault(name, []).append(float((loss - reference).mean()))
    records = []
    for name, values in gaps.items():
        found = spread(torch.tensor(values, dtype=torch.float64))
        record: dict[str, Value] = {
            "candidates": settings.candidates,
            "anchors": settings.anchors,
            "loss": name,
            "gap": found.mean,
            "gap_low": found.low,
            "gap_high": found.high,
            "gap_error": found.error,
            "supervised": sum(supervised) / len(supervised),
        }
        records.append(record)
    return records


def _losses(
    chunk: Observations, settings: Settings, source: torch.Generator
) -> dict[str, torch.Tensor]:
    """Every loss, one value per anchor."""
    all_true = torch.ones_like(chunk.true_negative)
    scores = sample_by_inversion(all_true, chunk.proposals, alpha=settings.alpha, generator=source)
    negatives = scores / settings.temperature
    positive = chunk.positives[:, 0]
    return {
        "supervised": F.oracle_loss(positive, negatives, true_negative=all_true),
        "biased": F.info_nce_loss(positive, chunk.unlabeled),
        "debiased": F.debiased_loss(
            positive,
            chunk.unlabeled,
            tau_plus=settings.tau_plus,
            minimum_logit=-1 / settings.temperature,
        ),
        **{
            f"bayesian_{ranks}": F.bayesian_loss(
                positive,
                chunk.unlabeled,
                alpha=settings.alpha,
                beta=settings.beta,
                tau_plus=settings.tau_plus,
                ranks=ranks,
            )
            for ranks in EXACT_RANKS
        },
    }
