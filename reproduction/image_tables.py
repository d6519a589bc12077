"""The paper's tables on images: plans of their runs, and our values beside the paper's.

``image_tables.yaml`` has settings and printed values.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal

import pydantic.dataclasses
import torch
import yaml

from bayescl_lab._fields import Count, Words, check_choice
from bayescl_lab.compare.encoders import EncoderPlan
from bayescl_lab.report.results import section_markdown
from bayescl_lab.report.tables import ReportTable, counted, measure_title, score_text
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES, LossSettings, has_hyperparameter
from bayescl_lab.runs.result import SPREAD, Result
from bayescl_lab.runs.settings import Device
from reproduction.printed import IMAGES, Printed

_DATA = yaml.safe_load(files(__package__).joinpath("image_tables.yaml").read_text(encoding="utf-8"))
DATASETS: Mapping[str, Mapping[str, Any]] = _DATA["datasets"]
"""Title, number of classes and settings of each data set, in the paper's order."""

SECONDS = "seconds_per_epoch"
"""Measure of the table of running time."""


@dataclass(frozen=True)
class TableRow:
    """Row of a table.

    Attributes:
        keys: Key of the row by column.
        printed: The paper's values by measure.
        settings: Settings of its runs, without the seed.
    """

    keys: Mapping[str, str]
    printed: Mapping[str, Printed]
    settings: ImageSettings

    @property
    def name(self) -> str:
        """Name of the row in results and run folders."""
        return "-".join(value.replace(" ", "_") for value in self.keys.values())


@dataclass(frozen=True)
class PaperTable:
    """Table of the paper: every loss on every data set, with every variation."""

    name: str  # as in "python -m reproduction tables NAME"
    title: str
    datasets: Sequence[str] = tuple(DATASETS)[1:]
    losses: Sequence[str] = ("info_nce", "debiased", "hard", "bayesian")
    measures: Sequence[str] = ("linear", "few_label_1")
    remarks: Sequence[str] = ()  # what a reader must know before comparing the figures
    is_timed: bool = False
    two_classes: bool = False
    varied: Mapping[str, Any] = field(default_factory=dict)  # values by size, or the same at all
    settings: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, size: str) -> Iterator[TableRow]:
        """Return the rows of the table at a size."""
        of_size = _DATA["sizes"][size]
        datasets = of_size.get("datasets", self.datasets)
        for data, loss in itertools.product(datasets, self.losses):
            about = DATASETS[data]
            classes = 2 if self.two_classes else about["classes"]
            shared: Any = {**of_size["settings"], **about.get("settings", {}), **self.settings}
            two_classes = about["two_classes"] if self.two_classes else None
            base = ImageSettings(
                loss=LossSettings(loss), teacher="none", data=data, classes=two_classes, **shared
            )
            values = {"temperature": 0.5, "tau_plus": 1 / classes, "concentration": 1.0}
            values |= {"alpha": 0.9, "beta": 0.5} if self.two_classes else about["bayesian"]
            for key, text, change in self._variations(size, classes):
                keys = {"data set": about["title"]}
                keys |= {"loss": LOSSES[loss].title} if len(self.losses) > 1 else {}
                keys |= {key: text} if key else {}
                own = {"batch_size": 256} | {
                    name: value
                    for name, value in {**values, **change}.items()
                    if name == "batch_size" or has_hyperparameter(loss, name)
                }
                printed = IMAGES.get((self.name, data, loss, text), {})
                yield TableRow(keys, printed, base.with_values(own))

    def _variations(self, size: str, classes: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Return further settings of the table, with the title and text of their column."""
        for name, values in self.varied.items():
            for value in values[size] if isinstance(values, dict) else values:
                if name == "batch_size":
                    yield "N", str(2 * value - 2), {name: value}
                else:
                    one = round(value / classes, 6) if name == "tau_plus" else value
                    yield name, str(one), {name: one}
        if not self.varied:
            yield "", "", {}


@dataclass(frozen=True)
class TablePlan(EncoderPlan[ImageSettings]):
    """Plan of the requested part of a table, with its rows by name."""

    table: PaperTable = field(kw_only=True)
    rows: Mapping[str, TableRow] = field(kw_only=True)

    def beside(self, result: Result) -> ReportTable:
        """Return the table of a finished result, with the paper's values in parentheses."""
        records, notes = list[dict[str, str]](), list[str]()
        for name, row in result.rows.items():
            ours, record = self.rows[name], dict(self.rows[name].keys)
            for measure in self.table.measures:
                title, text = "seconds per epoch", ""
                if measure == SECONDS and row.seconds is not None:
                    text = row.seconds.text(".2f")
                elif measure in row.scores:
                    title = measure_title(measure)
                    text = score_text(row.scores[measure], measure)
                if text and measure in ours.printed:
                    text = ours.printed[measure].beside(text, "g", notes)
                record[title] = text
            records.append(record)
        what = "Seconds per epoch" if self.is_timed else "Accuracy in percent"
        about = f"{what}, mean ± {SPREAD} ({counted(result.seeds, 'seed')})."
        if any(row.printed for row in self.rows.values()):
            about += " In parentheses: the paper's value, if it can be compared."
        return ReportTable(records, about, " ".join(notes), numeric=False)

    def markdown(self, result: Result) -> str:
        """Format a finished result as Markdown, with a heading and remarks."""
        return section_markdown(self.table.title, result, self.beside(result))


@pydantic.dataclasses.dataclass(frozen=True)
class TableRequest:
    """Requested part and size of a table.

    Attributes:
        size: Size of the experiments. smoke takes minutes on a CPU with scikit-learn's digits;
            paper needs a GPU.
        datasets: Comma-separated names of data sets of the table. Default: all.
        seeds: Number of seeds. Default: the number in the table's settings.
        epochs: Number of epochs of every run. Default: depends on the size. With another number,
            the paper's values are not shown.
        device: Device for training.

    Raises:
        ValueError: if a value is out of its range, or the paper's size is requested without a GPU
            and without "cpu".
    """

    size: Literal["smoke", "paper"] = "smoke"
    datasets: Words = ()
    seeds: Count | None = None
    epochs: Count | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError(
                "size paper takes weeks without a GPU: pass --device cpu to run it anyway"
            )

    def plans(self, tables: Sequence[PaperTable]) -> list[TablePlan]:
        """Return the requested part of each table, without empty tables.

        Raises:
            ValueError: if none of the tables has a requested data set.
        """
        rows = [row for table in tables for row in table.rows(self.size)]
        for name in self.datasets:
            check_choice("datasets", name, tuple(dict.fromkeys(row.settings.data for row in rows)))
        plans = [self._plan(table) for table in tables]
        return [plan for plan in plans if plan.rows]

    def _plan(self, table: PaperTable) -> TablePlan:
        """Return the requested part of a table."""
        changes: dict[str, Any] = {"device": self.device, "ranks": "upper"}
        changes |= {} if self.epochs is None else {"epochs": self.epochs}
        every = list(table.rows(self.size))
        is_own = all(self.epochs in (None, row.settings.epochs) for row in every)
        rows = {
            row.name: replace(
                row,
                printed=row.printed if is_own else {},
                settings=replace(row.settings, **changes),
            )
            for row in every
            if row.settings.data in (self.datasets or [row.settings.data])
        }
        size, is_paper = _DATA["sizes"][self.size], self.size == "paper"
        left_out = f"{self.epochs} epochs: the paper's values are left out."
        return TablePlan(
            {name: row.settings for name, row in rows.items()},
            range(self.seeds or size["seeds"]),
            name=table.name,
            measures=[measure for measure in table.measures if measure != SECONDS],
            is_timed=table.is_timed,
            remarks=[
                size["protocol"],
                *([left_out] if is_paper and not is_own else ()),
                *(*table.remarks, *(_DATA["unstated"] if is_paper else ())),
            ],
            table=table,
            rows=rows,
        )


TABLES = {name: PaperTable(name, **row) for name, row in _DATA["tables"].items()}
"""Tables by name, as in ``python -m reproduction tables NAME``."""
