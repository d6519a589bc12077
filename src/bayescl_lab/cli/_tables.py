"""Results of finished runs as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bayescl_lab.cli._console import say, table

if TYPE_CHECKING:
    from rich.table import Table


def probe_table(probes: Mapping[str, float], *, title: str) -> Table:
    """Accuracy of one encoder by every probe."""
    from bayescl_lab.images.probes import PROBES, probe_title

    rows = []
    for probe in (*PROBES, "linear_top5"):
        if probe in probes:
            spread = probes.get(f"{probe}_spread")
            shown = "" if spread is None else f"{100 * spread:.1f}"
            rows.append((probe_title(probe), f"{100 * probes[probe]:.1f}", shown))
    return table(title, ("probe", "accuracy, %", "spread over draws"), rows)


def metrics_table(metrics: Mapping[str, float], *, title: str) -> Table:
    """All metrics of a full ranking: one row per metric, one column per list length."""
    from bayescl_lab.ranking.metrics import METRICS

    lengths = sorted({int(name.partition("@")[2]) for name in metrics})
    rows = [
        (name.replace("_", " "), *(f"{metrics[f'{name}@{k}']:.4f}" for k in lengths))
        for name in METRICS
    ]
    return table(title, ("", *(f"@{k}" for k in lengths)), rows)


def print_guesses(guessed: Mapping[str, str]) -> None:
    """Print one line on which of a table's columns were guessed, if any."""
    if guessed:
        columns = ", ".join(f"{kind}s from {name!r}" for kind, name in guessed.items())
        options = ", ".join(f"--{kind}-column" for kind in guessed)
        say(f"columns guessed: {columns} ({options} to change)")
