"""The paper's tables on images: the settings they vary, and the paper's figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bayescl_lab.images.probes import probe_title
from bayescl_lab.paper.images.sizes import DATA, DATASETS, NUM_CLASSES, TITLES, cell_settings
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES

SECONDS = "seconds_per_epoch"
"""The measure of tables of time."""

MEASURES = {"linear": "top-1, %", "linear_top5": "top-5, %", SECONDS: "seconds per epoch"}
"""The measures that the paper prints, and their titles."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure as printed in the paper, in percent; what stands after "±", and what is wrong."""

    value: float
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Cell:
    """One row of a table in long form: the varied settings, and the run."""

    keys: Mapping[str, str]  # identify the cell, by column title; the first is the data set
    settings: ImageSettings  # but for the seed
    paper: Mapping[str, PaperFigure] = field(default_factory=dict)  # by measure, if any

    @property
    def name(self) -> str:
        """The cell's name in the names of files."""
        return "-".join(value.replace(" ", "_") for value in self.keys.values())


Variation = tuple[dict[str, str], dict[str, Any]]
"""Further keys of a cell, and the settings that they stand for."""


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: every loss on every data set, with every variation."""

    name: str  # as in "bayescl reproduce NAME"
    title: str
    label: str  # in the paper's source
    printed: str = ""  # the paper's figures; see figures_of
    note: str = ""  # what is wrong with one of them
    datasets: Sequence[str] = DATASETS  # the size "smoke" has scikit-learn's digits instead
    losses: Sequence[str] = ("info_nce", "debiased", "hard", "bayesian")
    measures: Sequence[str] = ("linear", "few_label_1")
    smoke_seeds: int = 2
    remarks: Sequence[str] = ()  # what a reader must know before comparing the figures
    is_timed: bool = False  # then runs must not be parallel

    def seeds(self, size: str) -> int:
        """The number of seeds at a size."""
        return {"smoke": self.smoke_seeds, "rehearsal": 1, "paper": 3}[size]

    def cells(self, size: str) -> list[Cell]:
        """The table's cells at a size, in the order of its rows."""
        return [
            self._cell(size, data, loss, *variation)
            for data in (("digits",) if size == "smoke" else self.datasets)
            for loss in self.losses
            for variation in self._variations(size, data)
        ]

    def _variations(self, size: str, data: str) -> list[Variation]:
        """What else the table varies on a data set."""
        if self.name == "binary":  # two of the digits come to 250 training images
            return _batches(64 if size == "smoke" else 256, two_classes=True)
        if self.name == "negatives":
            return _batches(16, 32, 64, 128, 256)
        if self.name == "hardness":
            betas = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
            return [({"beta": f"{beta:.1f}"}, {"beta": beta}) for beta in betas]
        if self.name == "prior":  # multiples of one over the number of classes
            priors = [round(share / NUM_CLASSES[data], 6) for share in (0.2, 1.0, 2.0)]
            return [({"tau_plus": f"{prior:g}"}, {"tau_plus": prior}) for prior in priors]
        if self.name == "runtime":  # the median leaves out the first epoch, which warms up
            epochs = 2 if size == "rehearsal" else 5
            return [({}, {"epochs": epochs, "linear_protocol": "fast"})]
        return [({}, {})]

    def _cell(
        self, size: str, data: str, loss: str, varied: dict[str, str], changes: dict[str, Any]
    ) -> Cell:
        """The cell of a data set, a loss and a variation."""
        loss_key = {"loss": LOSSES[loss].title} if len(self.losses) > 1 else {}
        words = {data, loss, *varied.values()}
        return Cell(
            keys={"data set": TITLES[data], **loss_key, **varied},
            settings=cell_settings(size, data, loss, **changes),
            paper={
                measure: figure
                for place, figure in figures_of(self.printed, self.note).items()
                for measure in self.measures
                if size == "paper" and place <= {*words, measure}
            },
        )


def _batches(*sizes: int, **changes: Any) -> list[Variation]:
    """Batches of these sizes; B images give every anchor N = 2 B - 2 negatives."""
    return [({"N": str(2 * size - 2)}, {"batch_size": size, **changes}) for size in sizes]


def measure_title(measure: str) -> str:
    """The title of a measure for readers.

    Example:
        >>> measure_title("linear")
        'top-1, %'
    """
    return MEASURES.get(measure) or f"{probe_title(measure)}, %"


def figures_of(table: str, note: str = "") -> dict[frozenset[str], PaperFigure]:
    r"""Figures from a table of text, by the words of their row and the title of their column.

    Figures are of the measure "linear" if they name none. A note begins with the words and the
    column of the figure with which something is wrong.

    Example:
        >>> figures = figures_of("hard bayesian \n cifar10 98.4 99.3±0.22")
        >>> figures[frozenset(("cifar10", "bayesian", "linear"))]
        PaperFigure(value=99.3, spread=0.22, note='')
    """
    header, *rows = (line.split() for line in table.splitlines() or [""])
    noted, _, what = note.partition(": ")
    figures = {}
    for row in rows:
        for column, figure in zip(header, row[-len(header) :], strict=True):
            words = {*row[: -len(header)], column}
            value, _, spread = figure.partition("±")
            wrong = what if words == set(noted.split()) else ""
            measured = words if words & MEASURES.keys() else {*words, "linear"}
            figures[frozenset(measured)] = PaperFigure(
                float(value), float(spread) if spread else None, wrong
            )
    return figures


TABLES = {name: PaperTable(name, **row) for name, row in DATA["tables"].items()}
"""Every table by its name, as in ``bayescl reproduce NAME``."""
