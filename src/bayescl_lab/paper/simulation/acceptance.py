"""Comparison of the two samplers with each other and with the closed form."""

from __future__ import annotations

import torch

from bayescl import functional as F
from bayescl_lab.paper.simulation.curves import FALSE_NEGATIVE, TRUE_NEGATIVE
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.proposals import NormalProposals
from bayescl_lab.paper.simulation.samplers import sample_by_inversion, sample_by_rejection
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.tables import Table, Value

SCORES = 2000
"""Scores per draw, class and alpha."""

STEPS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def acceptance(settings: Settings, seed: int) -> Table:
    """Acceptance rates, and Kolmogorov-Smirnov tests of both samplers.

    Args:
        settings: ``draws`` is how often a rate is measured, on 2,000 scores each time.
        seed: seed of the run.

    Returns:
        One record per alpha and class: the share of proposals accepted, with band and standard
        error over draws, its expected value, and p-values over all scores of accept-reject against
        the closed-form CDF, inversion against it, and the two against each other.

    Reference:
        Liu et al., ICML 2024, Algorithms "AccRejetSamplingTN" and "AccRejetSamplingFN".
    """
    points = [
        (alpha, label, wanted)
        for alpha in STEPS
        for label, wanted in ((TRUE_NEGATIVE, True), (FALSE_NEGATIVE, False))
    ]
    found = in_parallel(lambda point: _measure(point[0], point[2], settings, seed), points)
    return Table.of(
        {"alpha": alpha, "class": label, **measured}
        for (alpha, label, _), measured in zip(points, found, strict=True)
    )


def _measure(alpha: float, wanted: bool, settings: Settings, seed: int) -> dict[str, Value]:
    """One alpha and class."""
    from scipy import stats

    labels = torch.full((settings.draws, SCORES), wanted)
    proposals = NormalProposals()
    source = generator(seed, "acceptance", alpha, wanted)
    drawn = sample_by_rejection(labels, proposals, alpha=alpha, generator=source)
    rates = spread(SCORES / drawn.proposed.sum(dim=1).double())
    exact = sample_by_inversion(labels, proposals, alpha=alpha, generator=source)

    def levels(scores: torch.Tensor) -> torch.Tensor:
        class_cdf = F.true_negative_cdf if wanted else F.false_negative_cdf
        flat = scores.flatten()
        rows = torch.zeros(flat.shape, dtype=torch.int64)
        return class_cdf(proposals.cdf(flat, rows), alpha=alpha)

    by_rejection, by_inversion = levels(drawn.scores).numpy(), levels(exact).numpy()
    return {
        "scores": labels.numel(),
        "rate": rates.mean,
        "rate_low": rates.low,
        "rate_high": rates.high,
        "rate_error": rates.error,
        "expected": 1 / (2 * alpha),
        "rejection_p": float(stats.kstest(by_rejection, "uniform", method="asymp").pvalue),
        "inversion_p": float(stats.kstest(by_inversion, "uniform", method="asymp").pvalue),
        "both_p": float(stats.ks_2samp(by_rejection, by_inversion, method="asymp").pvalue),
    }
