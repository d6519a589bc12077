"""What a user of the paper's tables sees before and while they are made."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bayescl_lab.cli._console import Bar, console, say, table
from bayescl_lab.cli._data import in_bytes

if TYPE_CHECKING:
    from bayescl_lab.paper.images.cost import RunCost

TELLING = 0.02
"""Share of the pixels from which on the time left is estimated; runs on few images mislead."""


def print_plan(costs: Mapping[str, RunCost], folder: Path, command: str) -> None:
    """Print on standard error what is left to do, its disk space and the command to continue it."""
    screen = console(stderr=True)
    by_data: dict[str, list[RunCost]] = {}
    for cost in costs.values():
        by_data.setdefault(cost.data, []).append(cost)
    rows = [
        (
            data,
            len(some),
            f"{sum(one.epochs for one in some):,}",
            f"{sum(one.steps for one in some):,}",
            f"{sum(one.views for one in some) / 1e3:,.0f}",
        )
        for data, some in by_data.items()
    ]
    header = ("data set", "runs", "epochs", "steps", "views of 32 x 32, thousands")
    screen.print(table(f"{len(costs)} runs to train", header, rows))
    existing = next(place for place in (folder, *folder.resolve().parents) if place.is_dir())
    due, free = sum(one.disk for one in costs.values()), shutil.disk_usage(existing).free
    short = "" if due <= free else ": make room, or the runs will stop"
    say(
        f"disk: {in_bytes(due)} for checkpoints and weights, {in_bytes(free)} free{short}",
        f"to continue after an interruption: {command}",
        stderr=True,
    )


class RunLines:
    """Progress on a bar, and a line for every finished run, with an estimate of the time left.

    ``epochs`` are those of every run, ``costs`` of those that are to be trained; the clock tells
    seconds.
    """

    def __init__(
        self,
        bar: Bar,
        costs: Mapping[str, RunCost],
        epochs: Mapping[str, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bar = bar
        self._epochs = epochs
        self._clock = clock
        self._start = clock()
        self._left = {name: cost.views for name, cost in costs.items()}
        self._all = max(1.0, sum(self._left.values()))
        self._count = len(costs)

    def __call__(self, run: str, epoch: int, done: int) -> None:
        """Show the progress of a run and of all together."""
        self._bar.update(run, done)
        if run not in self._left or epoch < self._epochs[run]:
            return
        del self._left[run]
        left = sum(self._left.values())
        done_share = 1 - left / self._all
        rest = ""
        if self._left and done_share > TELLING:
            seconds = (self._clock() - self._start) * (1 / done_share - 1)
            rest = f"; about {in_time(seconds)} left, by pixels"
        number = self._count - len(self._left)
        self._bar.say(f"{number} of {self._count} runs trained: {run}{rest}")


def in_time(seconds: float) -> str:
    """A time in a suitable unit.

    Example:
        >>> in_time(8.2), in_time(600), in_time(5_400), in_time(400_000)
        ('8 s', '10 min', '1.5 h', '4.6 days')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"
