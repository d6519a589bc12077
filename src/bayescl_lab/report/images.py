"""Table of the accuracy of one encoder."""

from __future__ import annotations

from collections.abc import Mapping

from bayescl_lab.report.tables import Table, measure_title

FEW_IMAGES = 200
"""Number of images below which an accuracy has a confidence interval."""


def probe_table(probes: Mapping[str, float], images: int | None = None) -> Table:
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
