"""Tables and progress bars."""

from __future__ import annotations

import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from typing_extensions import Self

if TYPE_CHECKING:
    from bayescl_lab.ranking.data import RankingData
    from bayescl_lab.report.tables import Table as Content

LEAST_SECONDS = 5.0
"""Seconds of work after which the remaining time is estimated."""
_STEADY = 1.5
"""Largest ratio of the speeds of both halves at which the remaining time is estimated."""
_STILL = " (still at work)"
MINIMUM_WIDTH = 120
"""Width of tables without a terminal."""


def console(*, stderr: bool = False) -> Console:
    """Return a console with the width of the terminal, or of tables in a file or pipe."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = MINIMUM_WIDTH
    return screen


def say(*lines: object, stderr: bool = False) -> None:
    """Print lines literally, without breaking them."""
    for line in lines:
        console(stderr=stderr).print(str(line), soft_wrap=True, markup=False)


def print_guesses(data: RankingData) -> None:
    """Print which columns of a table were guessed, if any."""
    from bayescl_lab.ranking.datasets import guessed_columns

    if guessed := guessed_columns(data):
        columns = ", ".join(
            f"{kind}s from column {name}" if data.no_header else f"{kind}s from {name!r}"
            for kind, name in guessed.items()
        )
        options = ", ".join(f"--{kind}-column" for kind in guessed)
        say(f"columns guessed: {columns} ({options} to change)")


def table(
    title: str, header: Iterable[str], rows: Iterable[Iterable[object]], *, words: int = 1
) -> Table:
    """Return a table with literal text, without control codes.

    The first ``words`` columns hold text; the others hold numbers.
    """
    made = Table(title=_literal(title), title_justify="left")
    for number, column in enumerate(header):
        made.add_column(column, justify="left" if number < words else "right")
    for row in rows:
        made.add_row(*map(_literal, row))
    return made


def show(title: str, content: Content) -> None:
    """Print a report's table without Markdown, if it has rows."""
    if content.records:
        rows = [[cell.strip("*") for cell in row] for row in content.rows]
        words = 1 if content.numeric else len(content.head)
        console().print(table(title, content.head, rows, words=words))


def printable(text: object) -> str:
    """Replace every control code in a text by a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


def _literal(text: object) -> str:
    return escape(printable(text))


class Bar(Progress):
    """Progress bar on standard error, if it is a terminal.

    The bar appears at the first :meth:`tell`, after the input was checked.
    """

    def __init__(self, total: int, *columns: ProgressColumn) -> None:
        screen = console(stderr=True)
        super().__init__(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self._task = self.add_task("", total=total)

    def tell(self, description: str, done: float) -> None:
        """Show the current activity and progress."""
        self.start()
        self.update(self._task, completed=done, description=description)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        """Enter the context. Nothing is shown yet."""
        return self


def time_left(marks: Sequence[tuple[float, float]], left: float) -> str:
    """Estimate the remaining time in words from times and the work done until then.

    The result is empty while the speed differs between both halves, for example if the first step
    compiles.

    Example:
        >>> time_left([(0.0, 0.0), (30.0, 1.0), (60.0, 2.0)], 8.0)
        'about 0:04:00 left'
        >>> time_left([(0.0, 0.0), (30.0, 0.1), (60.0, 2.0)], 8.0)
        ''
    """
    (begin, before), (now, done) = marks[0], marks[-1]
    if now - begin < LEAST_SECONDS:
        return ""
    middle, then = marks[bisect(marks, ((begin + now) / 2,))]
    if not (begin < middle and before < then < done):
        return ""
    early, late = (then - before) / (middle - begin), (done - then) / (now - middle)
    if max(early, late) > _STEADY * min(early, late):
        return ""
    return f"about {timedelta(seconds=round(left / late))} left"


class EpochBar(Bar):
    """Progress of the epochs of one or several runs; one line per minute without a terminal.

    ``probes`` is the time of the probes after the last epoch, in epochs.
    """

    SILENCE = 10.0
    """Seconds between lines of progress if there is no terminal."""
    LONGEST_SILENCE = 50.0
    """Seconds without output after which the last line is repeated, for example in a probe."""

    def __init__(self, total: int, *, probes: float = 0.0) -> None:
        counts = MofNCompleteColumn(), TextColumn("epochs")
        times = TimeElapsedColumn(), TextColumn("{task.fields[left]}")
        super().__init__(total, TextColumn("{task.description}"), BarColumn(), *counts, *times)
        self.update(self._task, left="")
        self._total, self._probes = total, probes
        self._loss, self._state = "", "preparing"
        self._marks: list[tuple[float, float]] = []  # times and the epochs done until then
        self._created = self._shown_at = time.monotonic()
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        """Enter the context. Something is shown only if the first call takes long."""
        if self.disable:
            threading.Thread(target=self._keep_alive, daemon=True).start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        """Stop the timer."""
        self._stop.set()
        super().__exit__(*error)

    def tell(self, description: str, done: float) -> None:
        """Show progress and the remaining time; without a terminal, print a line per minute."""
        now = time.monotonic()
        if now - self._created < LEAST_SECONDS:
            self._marks.clear()  # finished runs take no time
        self._marks.append((now, done))
        left = time_left(self._marks, self._total - done + self._probes)
        super().tell(description, done)
        self.update(self._task, left=left)
        state = f"{description}: {done:.4g} of {self._total} epochs"
        self._state = f"{state}; {left}" if left else state
        if self.disable and now - self._shown_at > self.SILENCE:
            self._show()

    def _show(self) -> None:
        """Print the progress."""
        self._shown_at = time.monotonic()
        self.say(self._state)

    def _keep_alive(self) -> None:
        """Print the last state again if nothing was printed for a while."""
        while not self._stop.wait(1.0):
            if time.monotonic() - self._shown_at > self.LONGEST_SILENCE:
                self._state = f"{self._state.removesuffix(_STILL)}{_STILL}"
                self._show()

    def epoch_done(self, epochs: int, mean_loss: float) -> None:
        """Show the loss of a finished epoch; on its own line if there is no terminal."""
        self._loss = f"loss {mean_loss:.3f}"
        if self.disable:
            self.say(f"epoch {epochs} of {self._total}: {self._loss}")
            self._shown_at = time.monotonic()
        else:
            self.tell(self._loss, epochs)

    def steps_of(self, per_step: int, what: str) -> Callable[[int, int, int, float], None]:
        """Return a function that shows the progress of an epoch and its speed."""

        def step_done(epochs: int, step: int, steps: int, speed: float) -> None:
            shown = f"{self._loss}  {per_step * speed:,.0f} {what}/s"
            self.tell(shown.strip(), epochs + step / steps)

        return step_done
