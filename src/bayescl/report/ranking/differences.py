"""How far losses lie above InfoNCE, paired by seed, and above or below what the paper prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bayescl.experiments.ranking.paper import METRICS, is_misprint, paper_figure
from bayescl.experiments.ranking.published import has_lightgcn_split
from bayescl.runs.losses import BASELINE
from bayescl.runs.statistics import mean_and_spread

Cell = Mapping[str, Any]


def paired_differences(cell: Cell, metric: str) -> dict[str, dict[str, Any]]:
    """Each loss less InfoNCE, seed by seed; runs of one seed see the same batches and draws.

    Args:
        cell: what ``reproduce_cell`` returns.
        metric: such as "ndcg@20".

    Returns:
        By loss mean, spread and values, and ``certain``: whether the mean is at least two standard
        errors from 0, None for a single seed. Empty where there is no InfoNCE.
    """
    if BASELINE not in cell["losses"]:
        return {}
    base = cell["losses"][BASELINE]["metrics"][metric]["values"]
    found = {}
    for loss, entry in cell["losses"].items():
        if loss == BASELINE:
            continue
        pairs = zip(entry["metrics"][metric]["values"], base, strict=True)
        difference = mean_and_spread([ours - theirs for ours, theirs in pairs])
        spread = difference["spread"]
        certain = None
        if spread is not None:
            certain = abs(difference["mean"]) >= 2 * spread / math.sqrt(len(base))
        found[loss] = {**difference, "certain": certain}
    return found


def above_paper(cell: Cell) -> dict[str, dict[str, float]]:
    """By loss and metric, our mean less what the paper prints for that loss on such a split.

    Misprints, and what the paper does not print, are left out.
    """
    if has_lightgcn_split(cell["data"]):
        return {}
    data, encoder = str(cell["data"]).partition(",")[0], cell["encoder"]
    found: dict[str, dict[str, float]] = {}
    for loss, entry in cell["losses"].items():
        for metric in METRICS:
            theirs = paper_figure(data, encoder, loss, metric)
            if theirs is None or is_misprint(data, encoder, loss, metric):
                continue
            found.setdefault(loss, {})[metric] = entry["metrics"][metric]["mean"] - theirs
    return found


def verdict(cell: Cell) -> str:
    """One sentence on our rows and the paper's, whether or not it pleases; empty without any."""
    gaps = above_paper(cell)
    if not gaps:
        return ""
    below = [
        f"{loss} on {metric} ({gap:+.4f})"
        for loss, by_metric in gaps.items()
        for metric, gap in by_metric.items()
        if gap < 0
    ]
    count = sum(map(len, gaps.values()))
    if not below:
        return f"All {count} figures are at or above what the paper prints for the same loss."
    return (
        f"{count - len(below)} of {count} figures are at or above what the paper prints for the "
        f"same loss; below it are {', '.join(below)}."
    )
