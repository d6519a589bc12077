"""Statistics over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def mean_and_spread(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (None for a single value) and the values themselves.

    Example:
        >>> mean_and_spread([1.0, 3.0])
        {'mean': 2.0, 'spread': 1.4142135623730951, 'values': [1.0, 3.0]}
    """
    spread = statistics.stdev(values) if len(values) > 1 else None
    return {"mean": statistics.fmean(values), "spread": spread, "values": list(values)}


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, Any]:
    """Ours less theirs, paired by seed: runs with the same seed see the same batches and draws.

    Example:
        >>> paired_difference([0.5, 0.75], [0.25, 0.25])["mean"]
        0.375
    """
    return mean_and_spread([one - other for one, other in zip(ours, theirs, strict=True)])
