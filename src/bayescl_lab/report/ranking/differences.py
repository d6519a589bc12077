"""Differences between losses and InfoNCE, paired by seed, and from the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.compare.summary import exceeds_noise, paired_difference
from bayescl_lab.paper.ranking.printed import METRICS, is_misprint, paper_figure
from bayescl_lab.paper.ranking.published import has_lightgcn_split
from bayescl_lab.runs.losses import BASELINE

Cell = Mapping[str, Any]
"""What :func:`~bayescl_lab.paper.ranking.reproduction.reproduce_cell` returns."""


def paired_differences(cell: Cell, metric: str) -> dict[str, dict[str, Any]]:
    """Each loss less InfoNCE, seed by seed.

    Args:
        cell: what ``reproduce_cell`` returns.
        metric: such as "ndcg@20".

    Returns:
        For each loss, mean, spread and values, and ``certain``: whether the mean is at least two
        standard errors from 0; None for a single seed. Empty without InfoNCE.
    """
    values = {loss: entry["metrics"][metric]["values"] for loss, entry in cell["losses"].items()}
    base = values.pop(BASELINE, None)
    if base is None:
        return {}
    found = {loss: paired_difference(ours, base) for loss, ours in values.items()}
    return {
        loss: {**one, "certain": exceeds_noise(one, len(base)) if len(base) > 1 else None}
        for loss, one in found.items()
    }


def above_paper(cell: Cell) -> dict[str, dict[str, float]]:
    """By loss and metric, our mean less the paper's figure for that loss on such a split.

    Misprints and missing figures are left out.
    """
    if has_lightgcn_split(cell["data"]):
        return {}
    found: dict[str, dict[str, float]] = {}
    for loss, entry in cell["losses"].items():
        for metric in METRICS:
            place = data_name(cell), cell["encoder"], loss, metric
            theirs = paper_figure(*place)
            if theirs is not None and not is_misprint(*place):
                found.setdefault(loss, {})[metric] = entry["metrics"][metric]["mean"] - theirs
    return found


def against_paper(cell: Cell) -> str:
    """One sentence that compares our rows with the paper's; empty if there are none."""
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


def data_name(cell: Cell) -> str:
    """The data set's name, without its split."""
    return str(cell["data"]).partition(",")[0]
