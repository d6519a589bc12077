"""What the commands on interactions share: where a run goes, and its table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bayescl.recsys.metrics import METRICS


def default_folder(name: str, now: datetime) -> Path:
    """A new folder under ``runs/`` for a run that was given none.

    Example:
        >>> default_folder("mf-shop/bought.csv", datetime(2024, 5, 6, 7, 8, 9)).as_posix()
        'runs/mf-shop-bought.csv-20240506-070809'
    """
    plain = re.sub(r"[^\w.]+", "-", name).strip("-.")
    return Path("runs") / f"{plain}-{now:%Y%m%d-%H%M%S}"


def metrics_table(metrics: Mapping[str, float], *, title: str) -> Table:
    """Every figure of a full ranking: a row for each, a column for each length of list."""
    lengths = sorted({int(name.partition("@")[2]) for name in metrics})
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for k in lengths:
        table.add_column(f"@{k}", justify="right")
    for name in METRICS:
        table.add_row(name.replace("_", " "), *(f"{metrics[f'{name}@{k}']:.4f}" for k in lengths))
    return table


def print_result(screen: Console, result: Mapping[str, Any], folder: Path) -> None:
    """Print what a finished run came to, and what happened to its data on the way."""
    settings = result["settings"]
    name = settings["encoder"] if "loss" not in settings else settings["loss"]
    epoch = result.get("best_epoch")
    title = f"{name} on {settings['data']}, {result['evaluated_on']} part"
    screen.print(metrics_table(result["metrics"], title=title))
    if epoch is not None and "note" not in result:
        screen.print(f"best epoch on validation: {epoch} of {result['epochs']}")
    if "note" in result:
        screen.print(f"protocol of the paper: {result['note']}")
    left_out = result["users_left_out"]
    screen.print(
        f"{result['users']} users judged"
        + (f"; {left_out} have nothing to find and are left out" if left_out else "")
    )
    for phrase, count in result["report"].items():
        screen.print(f"{count} {phrase}")
    if "seconds_per_epoch" in result:
        screen.print(f"{result['seconds_per_epoch']:.2f} seconds per epoch")
    screen.print(f"run folder: {folder}", soft_wrap=True)
