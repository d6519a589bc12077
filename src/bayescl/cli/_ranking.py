"""What the commands on interactions share: where a run goes, and its table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

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
