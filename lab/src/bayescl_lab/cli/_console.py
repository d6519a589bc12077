"""Tables and progress bars."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from typing_extensions import Self

from bayescl_lab._interrupts import check

if TYPE_CHECKING:
    from bayescl_lab.ranking.data import RankingData
    from bayescl_lab.report.tables import ReportTable
    from bayescl_lab.runs.result import Result

MINIMUM_WIDTH = 120
"""Width of tables without a terminal."""


class Notes(logging.Handler):
    """Print messages of the log as notes on standard error, and keep them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message."""
        self.messages.append(record.getMessage())
        say(f"note: {printable(record.getMessage())}", stderr=True)


notes = Notes()
"""Notes of the current command."""


def console(*, stderr: bool = False) -> Console:
    """Return a console as wide as the terminal, or wide enough for tables in a file or pipe."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = MINIMUM_WIDTH
    return screen


def say(*lines: object, stderr: bool = False) -> None:
    """Print lines literally, without breaking them."""
    for line in lines:
        text = str(line).encode("utf-8", "backslashreplace").decode()  # paths may not be UTF-8
        console(stderr=stderr).print(text, soft_wrap=True, markup=False)


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

    def literal(text: object) -> str:
        return escape(printable(text))

    result = Table(title=literal(title), title_justify="left")
    for number, column in enumerate(header):
        result.add_column(column, justify="left" if number < words else "right")
    for row in rows:
        result.add_row(*map(literal, row))
    return result


def show(title: str, content: ReportTable) -> None:
    """Print a report's table without Markdown, if it has rows."""
    if content.records:
        rows = [[cell.strip("*") for cell in row] for row in content.rows]
        words = 1 if content.numeric else len(content.head)
        console().print(table(title, content.head, rows, words=words))


def print_result(title: str, result: Result, table: ReportTable | None = None) -> None:
    """Print a table of a result and the remarks that were not printed before.

    By default, it is the table of scores.
    """
    from bayescl_lab.report.results import classes_table, remarks_of, scores_table

    table, of_classes = table or scores_table(result), classes_table(result)
    show(title, table)
    show("", of_classes)
    shown = [it for it in (table, of_classes) if it.records]
    about = [text.replace("**", "") for it in shown for text in (it.title, it.note)]
    remarks = [text for text in remarks_of(result) if text not in notes.messages]
    say(*(f"* {text}" for text in (*about, *remarks) if text))


def printable(text: object) -> str:
    """Replace every control code in a text by a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))


class Bar(Progress):
    """Progress on standard error: a bar on a terminal, else at most one line per ten seconds.

    It appears at the first :meth:`tell`, after the input was checked.

    Args:
        total: Amount of work.
        columns: Columns of the bar. Default: activity, epochs and times.
    """

    SILENCE = 10.0
    """Seconds between lines if there is no terminal."""

    def __init__(self, total: float, *columns: ProgressColumn) -> None:
        times = TimeElapsedColumn(), TimeRemainingColumn()
        counts = TextColumn("{task.completed:.4g} of {task.total:g} epochs")
        columns = columns or (TextColumn("{task.description}"), BarColumn(), counts, *times)
        screen = console(stderr=True)
        super().__init__(*columns, console=screen, transient=True, disable=not screen.is_terminal)
        self.add_task("training", total=total)
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        """Enter the context. Nothing is shown yet."""
        return self

    def tell(self, done: float, description: str | None = None) -> None:
        """Show the progress and, if it changed, the current activity.

        Raises ``KeyboardInterrupt`` after Ctrl-C or SIGTERM.
        """
        check()
        self.start()
        (task,) = self.tasks
        self.update(task.id, completed=done, description=description)
        if self.disable and time.monotonic() - self._told > self.SILENCE:
            self._told = time.monotonic()
            left = timedelta(seconds=task.time_remaining or 0)
            about = f"; about {left} left" if left else ""
            say(f"{task.description}: {done:.4g} of {task.total:g}{about}", stderr=True)

    def trained(self, epochs: float, mean_loss: float | None) -> None:
        """Show the progress of training and, after an epoch, its loss."""
        self.tell(epochs, None if mean_loss is None else f"loss {mean_loss:.3f}")
