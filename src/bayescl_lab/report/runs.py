"""Table of the metrics of one run, and sentences on its data.

Results have the content of ``result.json`` or ``evaluation.json``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayescl_lab.ranking.interactions import in_words
from bayescl_lab.report.tables import Table, counted, measure_title, paragraph

MEASURES = ("recall@20", "ndcg@20")
"""Metrics of groups of users."""

FEW_IMAGES = 200
"""Number of images below which an accuracy has a confidence interval."""


def run_table(result: Mapping[str, Any]) -> Table:
    """Return a table of accuracies by probe, or of all metrics of a recommender."""
    if "metrics" in result:
        return _metrics_table(result["metrics"])
    part = result["settings"]["evaluate_on"]
    return _probe_table(result["probes"], result.get("images", {}).get(part))


def run_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return remarks and, for a recommender, sentences on baselines and evaluated users."""
    remarks = [*map(str, result.get("remarks", []))]
    if "metrics" not in result:
        return remarks
    baselines = result.get("baselines", {}).items()
    of_baselines = [paragraph("baseline", name, baseline) for name, baseline in baselines]
    return [*remarks, *of_baselines, *_data_sentences(result)]


def _probe_table(probes: Mapping[str, float], images: int | None = None) -> Table:
    """Return a table of accuracies by probe, with confidence intervals for few images."""
    records = []
    for probe, accuracy in probes.items():
        if not probe.endswith("_spread"):
            record = {"probe": measure_title(probe), "accuracy, %": f"{100 * accuracy:.1f}"}
            if images is not None and images < FEW_IMAGES:
                low, high = accuracy_interval(accuracy, images)
                record["95 % interval"] = f"{100 * low:.1f} to {100 * high:.1f}"
                record["images"] = str(images)
            if f"{probe}_spread" in probes:
                record["spread over draws"] = f"{100 * probes[f'{probe}_spread']:.1f}"
            records.append(record)
    return Table(records)


def accuracy_interval(accuracy: float, images: int) -> tuple[float, float]:
    """Compute Wilson's 95 % confidence interval of an accuracy.

    Example:
        >>> [round(bound, 3) for bound in accuracy_interval(0.9, 20)]
        [0.699, 0.972]
    """
    from scipy.stats import binomtest

    interval = binomtest(round(accuracy * images), images).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def _metrics_table(metrics: Mapping[str, float]) -> Table:
    """Return a table of metrics: a row per metric, a column per list length."""
    records: dict[str, dict[str, str]] = {}
    for name, value in metrics.items():
        metric, _, length = name.partition("@")
        record = records.setdefault(metric, {"": metric.replace("_", " ")})
        record[f"@{length}"] = f"{value:.4f}"
    return Table(list(records.values()))


def _data_sentences(result: Mapping[str, Any]) -> list[str]:
    """Return sentences on the evaluated users and on skipped data."""
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
