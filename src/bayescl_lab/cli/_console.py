"""Tables and progress bars."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table
from typing_extensions import Self

MINIMUM_WIDTH = 120
"""Width of tables if there is no terminal to measure."""


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for tables in a file or pipe."""
    plain = Console(stderr=stderr, highlight=False)
    if plain.is_terminal:
        return plain
    return Console(stderr=stderr, highlight=False, width=MINIMUM_WIDTH)


def say(*lines: str, stderr: bool = False) -> None:
    """Print lines literally, without breaking them."""
    for line in lines:
        console(stderr=stderr).print(line, soft_wrap=True, markup=False)


def table(
    title: str,
    header: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    words: int = 1,
    caption: str | None = None,
) -> Table:
    """A table with a title and a caption below; cells are shown literally.

    The first columns, ``words`` of them, hold text; the others hold numbers.
    """
    made = Table(title=title, title_justify="left", caption=caption, caption_justify="left")
    for number, column in enumerate(header):
        made.add_column(column, justify="left" if number < words else "right")
    for row in rows:
        made.add_row(*(escape(str(cell)) for cell in row))
    return made


class Bar:
    """A progress bar on standard error, if that is a terminal.

    It appears at the first :meth:`update`, so that errors in the input come without one.
    """

    def __init__(self, total: int, *columns: ProgressColumn) -> None:
        screen = console(stderr=True)
        hidden = not screen.is_terminal
        self._progress = Progress(*columns, console=screen, transient=True, disable=hidden)
        self._task = self._progress.add_task("", total=total)

    def update(self, description: str, done: float) -> None:
        """Show what is happening and how much is done."""
        if not self._progress.disable:
            self._progress.start()
        self._progress.update(self._task, completed=done, description=description)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._progress.console.print(line, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """Nothing is shown yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the bar."""
        if not self._progress.disable:
            self._progress.stop()


class EpochBar(Bar):
    """Epochs of one run or several."""

    SILENCE = 10.0
    """Seconds between lines of progress if there is no terminal."""

    def __init__(self, total: int) -> None:
        counts = MofNCompleteColumn(), TextColumn("epochs")
        times = TimeElapsedColumn(), TimeRemainingColumn()
        super().__init__(total, TextColumn("{task.description}"), BarColumn(), *counts, *times)
        self._total = total
        self._loss = ""
        self._said = time.monotonic()

    def update(self, description: str, done: float) -> None:
        """Show progress; in a line now and then if there is no terminal."""
        super().update(description, done)
        if self._progress.disable and time.monotonic() - self._said > self.SILENCE:
            self._said = time.monotonic()
            self.say(f"{description}: {done:.4g} of {self._total} epochs")

    def epoch_done(self, epochs: int, mean_loss: float) -> None:
        """Show the loss of a finished epoch; on its own line if there is no terminal."""
        self._loss = f"loss {mean_loss:.3f}"
        if self._progress.disable:
            self.say(f"epoch {epochs} of {self._total}: {self._loss}")
            self._said = time.monotonic()
            return
        self.update(self._loss, epochs)

    def step_done(
        self,
        epochs: int,
        step: int,
        steps: int,
        speed: float,
        *,
        per_step: int,
        what: str = "images",
    ) -> None:
        """Show the progress of an epoch; ``speed`` is in steps per second."""
        shown = f"{self._loss}  {per_step * speed:,.0f} {what}/s"
        self.update(shown.strip(), epochs + step / steps)


class ByteBar(Bar):
    """Bytes of a download."""

    def __init__(self, total: int) -> None:
        speeds = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
        super().__init__(total, BarColumn(), *speeds)
