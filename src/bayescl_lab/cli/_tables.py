"""Results of finished runs as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.cli._console import console, say, table
from bayescl_lab.report.ranking.table import baseline_sentences

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
    columns = ", ".join(f"{kind}s from {name!r}" for kind, name in guessed.items())
    options = ", ".join(f"--{kind}-column" for kind in guessed)
    say(*[f"columns guessed: {columns} ({options} to change)"] * bool(guessed))


def print_verdict(loss: str, folder: Path) -> None:
    """Print what a run's rows say of its loss, if anything."""
    from bayescl_lab.report.verdicts import training_verdict
    from bayescl_lab.runs.folder import RunFolder

    say(*training_verdict(loss, RunFolder(folder, "").read_metrics()))


def print_ranking(result: Mapping[str, Any], folder: Path) -> None:
    """Print a recommender's result, and remarks on its data."""
    settings = result["settings"]
    name = settings["encoder"] if "loss" not in settings else settings["loss"]
    if result["metrics"]:
        title = f"{name} on {settings['data']}, {result['evaluated_on']} part"
        console().print(metrics_table(result["metrics"], title=title))
    if "note" in result:
        say(f"protocol of the paper: {result['note']}")
    elif result.get("best_epoch") is not None:
        say(f"best epoch on validation: {result['best_epoch']} of {result['epochs']}")
    say(*baseline_sentences(result))
    if result["metrics"]:
        left_out = result["users_left_out"]
        nothing = f"; {left_out} have no items to find and were left out" if left_out else ""
        say(f"{result['users']} users judged{nothing}")
    else:
        say("all data were trained on: nothing is left to evaluate")
    say(*(f"{count} {phrase}" for phrase, count in result["report"].items()))
    if "seconds_per_epoch" in result:
        say(f"{result['seconds_per_epoch']:.2f} seconds per epoch")
    print_verdict(name, folder)
    say(f"run folder: {folder}")
