"""Differences paired by seed: runs of one seed see the same batches and draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bayescl.runs.statistics import mean_and_spread


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Ours less theirs, seed by seed, with mean and spread.

    Example:
        >>> paired_difference([0.5, 0.75], [0.25, 0.25])["mean"]
        0.375
    """
    return mean_and_spread([one - other for one, other in zip(ours, theirs, strict=True)])
