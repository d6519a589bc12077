"""Baselines beside the result of one recommender, one sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.report.titles import loss_title, measure_title

_SHOWN = ("recall", "ndcg")


def baseline_sentences(result: Mapping[str, Any]) -> list[str]:
    """The baselines' results on the same parts of the data, at the longest list.

    Args:
        result: ``result.json`` or ``evaluation.json`` of a recommender; without baselines there are
            no sentences.

    Example:
        >>> metrics = {"recall@20": 0.25, "ndcg@20": 0.5}
        >>> baseline_sentences({"baselines": {"popularity": {"metrics": metrics}}})
        ['beside it, popularity: R@20 0.2500, NDCG@20 0.5000']
    """
    sentences = []
    for name, one in result.get("baselines", {}).items():
        if "left_out" in one:
            sentences.append(str(one["left_out"]))
            continue
        longest = max(int(metric.partition("@")[2]) for metric in one["metrics"])
        figures = ", ".join(
            f"{measure_title(metric)} {one['metrics'][metric]:.4f}"
            for metric in (f"{shown}@{longest}" for shown in _SHOWN)
        )
        penalty = one.get("settings", {}).get("regularization")
        settings = "" if penalty is None else f" (regularization {penalty:g})"
        sentences.append(f"beside it, {loss_title(name)}{settings}: {figures}")
    return sentences
