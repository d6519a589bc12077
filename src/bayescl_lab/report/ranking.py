"""Table of the metrics of one recommender, and sentences on its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import Table, counted, measure_title, paragraph

MEASURES = ("recall@20", "ndcg@20")
"""Metrics of groups of users."""


def metrics_table(metrics: Mapping[str, float]) -> Table:
    """Return a table of metrics: a row per metric, a column per list length."""
    records: dict[str, dict[str, str]] = {}
    for name, value in metrics.items():
        metric, _, length = name.partition("@")
        record = records.setdefault(metric, {"": metric.replace("_", " ")})
        record[f"@{length}"] = f"{value:.4f}"
    return Table(list(records.values()))


def data_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the evaluated users and on skipped data.

    ``result`` is ``result.json`` or ``evaluation.json`` of a recommender.
    """
    if not result["metrics"]:
        return [
            "all data were trained on: nothing is left to evaluate",
            *in_words(result.get("report", {})),
        ]
    left_out, lines = result.get("users_left_out"), []
    nothing = f"; {counted(left_out, 'user')} without items to find left out" if left_out else ""
    lines.append(f"{counted(result.get('users', 0), 'user')} evaluated{nothing}")
    for group, what in (
        ("known_users", "known to training"),
        ("unknown_users", "unknown to training, who get popular items"),
    ):
        if group in result:
            metrics = result[group]["metrics"]
            figures = [f"{measure_title(name)} {metrics[name]:.4f}" for name in MEASURES]
            users = counted(result[group]["users"], "user")
            lines.append(f"of them {users} {what}: {', '.join(figures)}")
    return [*lines, *in_words(result.get("report", {}))]


def baseline_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the baselines' results, at the longest list.

    ``result`` is ``result.json`` or ``evaluation.json`` of a recommender.
    """
    baselines = result.get("baselines", {})
    return [paragraph("baseline", name, baseline) for name, baseline in baselines.items()]
