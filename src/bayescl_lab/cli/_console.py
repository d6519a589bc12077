"""Tables and progress bars."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from typing_extensions import Self

if TYPE_CHECKING:
    from bayescl_lab.ranking.data import RankingData
    from bayescl_lab.report.tables import Table as Content

MINIMUM_WIDTH = 120
"""Width of tables if there is no terminal to measure."""


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or wide enough for tables in a file or pipe."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = MINIMUM_WIDTH
    return screen


def say(*lines: object, stderr: bool = False) -> None:
    """Print lines literally, without breaking them."""
    for line in lines:
        console(stderr=stderr).print(str(line), soft_wrap=True, markup=False)


def print_guesses(data: RankingData) -> None:
    """Print one line on which of a table's columns were guessed, if any."""
    from bayescl_lab.ranking.datasets import guessed_columns

    if guessed := guessed_columns(data):
        columns = ", ".join(f"{kind}s from {name!r}" for kind, name in guessed.items())
        options = ", ".join(f"--{kind}-column" for kind in guessed)
        say(f"columns guessed: {columns} ({options} to change)")


def table(
    title: str, header: Iterable[str], rows: Iterable[Iterable[object]], *, words: int = 1
) -> Table:
    """A table whose text is shown literally, without control codes that a terminal would obey.

    The first columns, ``words`` of them, hold text; the others hold numbers.
    """
    made = Table(title=_literal(title), title_justify="left")
    for number, column in enumerate(header):
        made.add_column(column, justify="left" if number < words else "right")
    for row in rows:
        made.add_row(*map(_literal, row))
    return made


def show(title: str, content: Content) -> None:
    """Print a report's table without Markdown's marks, if it has rows."""
    if content.records:
        rows = [[cell.strip("*") for cell in row] for row in content.rows]
        words = 1 if content.numeric else len(content.head)
        console().print(table(title, content.head, rows, words=words))


def printable(text: object) -> str:
    """Text with a question mark for every control code."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def _literal(text: object) -> str:
    return escape(printable(text))


class Bar(Progress):
    """A progress bar on standard error, if that is a terminal.

    It appears at the first :meth:`tell`, so that errors in the input come without one.
    """

    def __init__(self, total: int, *columns: ProgressColumn) -> None:
        screen = console(stderr=True)
        super().__init__(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._task = self.add_task("", total=total)

    def tell(self, description: str, done: float) -> None:
        """Show what is happening and how much is done."""
        self.start()
        self.update(self._task, completed=done, description=description)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """Nothing is shown yet."""
        return self


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
        self._shown_at = time.monotonic()

    def tell(self, description: str, done: float) -> None:
        """Show progress; in a line now and then if there is no terminal."""
        super().tell(description, done)
        if self.disable and time.monotonic() - self._shown_at > self.SILENCE:
            self._shown_at = time.monotonic()
            self.say(f"{description}: {done:.4g} of {self._total} epochs")

    def epoch_done(self, epochs: int, mean_loss: float) -> None:
        """Show the loss of a finished epoch; on its own line if there is no terminal."""
        self._loss = f"loss {mean_loss:.3f}"
        if self.disable:
            self.say(f"epoch {epochs} of {self._total}: {self._loss}")
            self._shown_at = time.monotonic()
        else:
            self.tell(self._loss, epochs)

    def steps_of(self, per_step: int, what: str) -> Callable[[int, int, int, float], None]:
        """A function that shows the progress of an epoch, with its speed in steps per second."""

        def step_done(epochs: int, step: int, steps: int, speed: float) -> None:
            shown = f"{self._loss}  {per_step * speed:,.0f} {what}/s"
            self.tell(shown.strip(), epochs + step / steps)

        return step_done
