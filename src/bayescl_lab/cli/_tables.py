"""Results of finished runs as tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.cli._console import table
from bayescl_lab.report.ranking.table import baseline_sentences

if TYPE_CHECKING:
    from rich.console import Console
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


def print_baselines(screen: Console, result: Mapping[str, Any]) -> None:
    """Print a line for each baseline beside a result."""
    for sentence in baseline_sentences(result):
        screen.print(sentence, soft_wrap=True, markup=False)


def print_training_verdict(screen: Console, loss: str, folder: Path) -> None:
    """Print what a run's rows say of its loss, if anything."""
    from bayescl_lab.report.verdicts import training_verdict
    from bayescl_lab.runs.folder import RunFolder

    for sentence in training_verdict(loss, RunFolder(folder, "").read_metrics()):
        screen.print(sentence, soft_wrap=True, markup=False)


def print_guesses(screen: Console, guessed: Mapping[str, str]) -> None:
    """Print one line on which of a table's columns were guessed, if any."""
    if not guessed:
        return
    columns = ", ".join(f"{kind}s from {name!r}" for kind, name in guessed.items())
    options = ", ".join(f"--{kind}-column" for kind in guessed)
    screen.print(f"columns guessed: {columns} ({options} to change)", soft_wrap=True, markup=False)


def print_ranking(screen: Console, result: Mapping[str, Any], folder: Path) -> None:
    """Print a recommender's result, and remarks on its data."""
    settings = result["settings"]
    name = settings["encoder"] if "loss" not in settings else settings["loss"]
    epoch = result.get("best_epoch")
    title = f"{name} on {settings['data']}, {result['evaluated_on']} part"
    if result["metrics"]:
        screen.print(metrics_table(result["metrics"], title=title))
    if epoch is not None and "note" not in result:
        screen.print(f"best epoch on validation: {epoch} of {result['epochs']}")
    if "note" in result:
        screen.print(f"protocol of the paper: {result['note']}")
    print_baselines(screen, result)
    left_out = result["users_left_out"]
    if result["metrics"]:
        judged = f"{result['users']} users judged"
        nothing = f"; {left_out} have no items to find and were left out" if left_out else ""
        screen.print(judged + nothing)
    else:
        screen.print("all data were trained on: nothing is left to evaluate")
    for phrase, count in result["report"].items():
        screen.print(f"{count} {phrase}")
    if "seconds_per_epoch" in result:
        screen.print(f"{result['seconds_per_epoch']:.2f} seconds per epoch")
    print_training_verdict(screen, name, folder)
    screen.print(f"run folder: {folder}", soft_wrap=True)
