"""A table of the paper: cells to train, and the paper's figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bayescl_lab.images.probes import probe_title
from bayescl_lab.runs.images.settings import ImageSettings

SECONDS = "seconds_per_epoch"
"""The measure of tables of time."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure as printed in the paper.

    Attributes:
        value: the figure, accuracies in percent.
        spread: the paper's figure after "±", if any.
        note: what is wrong with the figure, if anything.
    """

    value: float
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One row of a table in long form: the varied settings, and the run.

    Attributes:
        keys: values that identify the cell, by column title; the first is the data set.
        settings: settings of its runs; the runner sets the seed.
        paper: the paper's figures by measure; empty if the paper has no such cell.
    """

    keys: Mapping[str, str]
    settings: ImageSettings
    paper: Mapping[str, PaperFigure] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The cell's name in the names of files."""
        return "-".join(value.replace(" ", "_") for value in self.keys.values())


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper.

    Attributes:
        name: as in ``bayescl reproduce NAME``.
        title: what the table shows.
        label: the table's label in the paper's source.
        cells: the table's cells at a size, in the order of its rows.
        measures: measures of a run; see :func:`measure_title`.
        seeds: number of seeds by size.
        remarks: what a reader must know before comparing the figures.
        is_timed: whether it measures time, so that runs must not be parallel.
    """

    name: str
    title: str
    label: str
    cells: Callable[[str], list[Cell]]
    measures: tuple[str, ...] = ("linear", "few_label_1")
    seeds: Mapping[str, int] = field(
        default_factory=lambda: {"smoke": 2, "rehearsal": 1, "paper": 3}
    )
    remarks: tuple[str, ...] = ()
    is_timed: bool = False

    @property
    def has_losses(self) -> bool:
        """Whether the table varies the loss."""
        return "loss" in self.cells("smoke")[0].keys

    def offered(self, size: str) -> dict[str, tuple[str, ...]]:
        """The data sets and losses to choose from at a size; no losses if it does not vary them."""
        settings = [cell.settings for cell in self.cells(size)]
        losses = [one.loss.loss for one in settings] if self.has_losses else []
        return {
            "datasets": tuple(dict.fromkeys(one.data for one in settings)),
            "losses": tuple(dict.fromkeys(losses)),
        }


def measure_title(measure: str) -> str:
    """The title of a measure for readers.

    Example:
        >>> measure_title("linear")
        'top-1, %'
    """
    titles = {
        "linear": "top-1, %",
        "linear_top5": "top-5, %",
        "seconds_per_epoch": "seconds per epoch",
    }
    return titles.get(measure) or f"{probe_title(measure)}, %"


def figures_of(table: str, note: str = "") -> dict[tuple[str, ...], PaperFigure]:
    r"""Figures from a table of text: columns by a line of titles, rows by the words before them.

    A note begins with the words and the column of the figure with which something is wrong.

    Example:
        >>> figures_of("hard bayesian \n cifar10 98.4 99.3±0.22")["cifar10", "bayesian"]
        PaperFigure(value=99.3, spread=0.22, note='')
    """
    header, *rows = (line.split() for line in table.strip().splitlines())
    noted, _, what = note.partition(": ")
    figures = {}
    for row in rows:
        words, printed = row[: -len(header)], row[-len(header) :]
        for column, figure in zip(header, printed, strict=True):
            value, _, spread = figure.partition("±")
            key = (*words, column)
            wrong = what if " ".join(key) == noted else ""
            figures[key] = PaperFigure(float(value), float(spread) if spread else None, wrong)
    return figures
