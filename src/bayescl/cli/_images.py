"""What the commands on images share: where a run goes, and its table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.table import Table

from bayescl.vision.probes import PROBES, probe_title


def default_folder(name: str, now: datetime) -> Path:
    """A new folder under ``runs/`` for a run that was given none.

    Example:
        >>> default_folder("hard-data/scans.npz", datetime(2024, 5, 6, 7, 8, 9)).as_posix()
        'runs/hard-data-scans.npz-20240506-070809'
    """
    plain = re.sub(r"[^\w.]+", "-", name).strip("-.")
    return Path("runs") / f"{plain}-{now:%Y%m%d-%H%M%S}"


def probe_table(probes: Mapping[str, float], *, title: str) -> Table:
    """Accuracy of one encoder by every probe."""
    table = Table(title=title, title_justify="left")
    table.add_column("probe")
    table.add_column("accuracy, %", justify="right")
    table.add_column("spread over draws", justify="right")
    for probe in (*PROBES, "linear_top5"):
        if probe in probes:
            spread = probes.get(f"{probe}_spread")
            table.add_row(
                probe_title(probe),
                f"{100 * probes[probe]:.1f}",
                "" if spread is None else f"{100 * spread:.1f}",
            )
    return table
