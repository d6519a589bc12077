"""Tables and progress bars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

MINIMUM_WIDTH = 100
"""Tables keep this width where there is no terminal to measure."""


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for tables in a file or pipe."""
    plain = Console(stderr=stderr, highlight=False)
    if plain.is_terminal:
        return plain
    return Console(stderr=stderr, highlight=False, width=MINIMUM_WIDTH)


@contextmanager
def progress_bar(description: str, total: int) -> Iterator[tuple[Progress, TaskID]]:
    """Show a progress bar on standard error while the block runs."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("epochs"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        transient=True,
    ) as progress:
        yield progress, progress.add_task(description, total=total)


def percent(entry: Mapping[str, Any], *, signed: bool = False) -> str:
    """Mean and spread of an accuracy, in percent."""
    mean = f"{100 * entry['mean']:{'+' if signed else ''}.1f}"
    return mean if entry["spread"] is None else f"{mean} ± {100 * entry['spread']:.1f}"
