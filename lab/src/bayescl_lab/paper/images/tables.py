"""The paper's tables on images as plans. Settings and printed values are in ``tables.yaml``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Literal

import pydantic.dataclasses
import torch
import yaml

from bayescl._checks import check_choice
from bayescl_lab._fields import Count, Words
from bayescl_lab.compare.images import ImagePlan
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES, LossSettings, takes
from bayescl_lab.runs.result import Printed, Result, Row
from bayescl_lab.runs.settings import Device

Size = Literal["smoke", "paper"]
"""A check in minutes on a CPU, or the paper's settings."""

_DATA = yaml.safe_load(files(__package__).joinpath("tables.yaml").read_text(encoding="utf-8"))
DATASETS: Mapping[str, Mapping[str, Any]] = _DATA["datasets"]
"""Title, number of classes and settings of each data set, in the paper's order."""


@dataclass(frozen=True)
class PaperTable:
    """Table of the paper: every loss on every data set, with every variation."""

    name: str  # as in "bayescl reproduce NAME"
    title: str
    # Values by the words of their row and column.
    printed: Mapping[Any, Any] = field(default_factory=dict)
    datasets: Sequence[str] = tuple(DATASETS)[1:]
    losses: Sequence[str] = ("info_nce", "debiased", "hard", "bayesian")
    measures: Sequence[str] = ("linear", "few_label_1")
    remarks: Sequence[str] = ()  # what a reader must know before comparing the figures
    is_timed: bool = False
    two_classes: bool = False
    varied: Mapping[str, Any] = field(default_factory=dict)  # values by size, or the same at all
    settings: Mapping[str, Any] = field(default_factory=dict)

    def cells(self, size: str) -> Iterator[tuple[Row, ImageSettings]]:
        """Return the rows of the table at a size, without scores, and settings of their runs."""
        of_size = _DATA["sizes"][size]
        shown = {name: _at(value, size) for name, value in self.settings.items()}
        datasets = of_size.get("datasets", self.datasets)
        for data, loss in itertools.product(datasets, self.losses):
            about = DATASETS[data]
            classes = 2 if self.two_classes else about["classes"]
            changes: dict[str, Any] = {
                "data": data,
                "classes": about["two_classes"] if self.two_classes else None,
                "batch_size": 256,
                "positive_share": 1.0,  # no teacher
                **of_size["settings"],
                **about.get("settings", {}),
                **shown,
            }
            values = {"temperature": 0.5, "tau_plus": 1 / classes, "concentration": 1.0}
            values |= about["bayesian"]
            if self.two_classes:
                values |= {"alpha": 0.9, "beta": 0.5}
            for key, text, change in self._variations(size, classes):
                keys = {"data set": about["title"]}
                keys |= {"loss": LOSSES[loss].title} if len(self.losses) > 1 else {}
                keys |= {key: text} if key else {}
                every = {**values, **change}
                taken = {name: value for name, value in every.items() if takes(loss, name)}
                changes |= {name: value for name, value in change.items() if name not in values}
                printed = self._printed({data, loss, text}) if size == "paper" else {}
                settings = ImageSettings(loss=LossSettings(loss, taken), **changes)
                yield Row({}, keys=keys, printed=printed), settings

    def _variations(self, size: str, classes: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Return further settings of the table, with the title and text of their column."""
        for name, values in self.varied.items():
            for value in _at(values, size):
                if name == "batch_size":
                    yield "N", str(2 * value - 2), {name: value}
                else:
                    one = round(value / classes, 6) if name == "tau_plus" else value
                    yield name, str(one), {name: one}
        if not self.varied:
            yield "", "", {}

    def _printed(self, words: set[str]) -> dict[str, Printed]:
        """Return the paper's values of a row by measure, given the words in its cells."""
        found = {}
        for place, figure in _figures(self.printed):
            (measure,) = place & {*self.measures} or {"linear"}
            if place <= {*words, measure}:
                score, _, note = figure.partition("; ")
                value, _, spread = score.partition("±")
                found[measure] = Printed(float(value), float(spread) if spread else None, note)
        return found


def _figures(printed: Any, *place: str) -> Iterator[tuple[set[str], str]]:
    """Yield values with the words of their rows and columns."""
    if not isinstance(printed, dict):
        yield {*place}, str(printed)
        return
    for word, inner in printed.items():
        yield from _figures(inner, *place, str(word))


def _at(value: Any, size: str) -> Any:
    """Return a value that may depend on the size."""
    return value[size] if isinstance(value, dict) else value


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

    size: Size = "smoke"
    datasets: Words = ()
    seeds: Count | None = None
    epochs: Count | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError(
                "size paper takes weeks without a GPU: pass --device cpu to run it anyway"
            )

    def plans(self, tables: Sequence[PaperTable]) -> list[ImagePlan]:
        """Return the requested part of each table, without empty tables.

        Raises:
            ValueError: if none of the tables has a requested data set.
        """
        cells = [settings for table in tables for _, settings in table.cells(self.size)]
        for name in self.datasets:
            check_choice("datasets", name, tuple(dict.fromkeys(one.data for one in cells)))
        plans = [self._plan(table) for table in tables]
        return [plan for plan in plans if plan.methods]

    def _plan(self, table: PaperTable) -> ImagePlan:
        """Return the requested part of a table."""
        changes: dict[str, Any] = {"device": self.device, "ranks": "upper"}
        changes |= {} if self.epochs is None else {"epochs": self.epochs}
        rows, methods, is_own = {}, {}, self.size == "paper"
        for row, settings in table.cells(self.size):
            is_own = is_own and self.epochs in (None, settings.epochs)
            name = "-".join(value.replace(" ", "_") for value in row.keys.values())
            if settings.data in (self.datasets or [settings.data]):
                rows[name] = row
                methods[name] = replace(settings, **changes)
        if not is_own:
            rows = {name: replace(row, printed={}) for name, row in rows.items()}
        about = _DATA["sizes"][self.size]
        known = Result(rows=rows, title=table.title, remarks=self._remarks(table, is_own=is_own))
        return ImagePlan(
            methods,
            range(self.seeds or about["seeds"]),
            name=table.name,
            result=known,
            measures=table.measures,
            is_timed=table.is_timed,
        )

    def _remarks(self, table: PaperTable, *, is_own: bool) -> list[str]:
        """Return remarks for the reader."""
        remarks = [_DATA["sizes"][self.size]["protocol"]]
        if self.size == "paper" and not is_own:
            remarks.append(f"{self.epochs} epochs: the paper's values are left out.")
        remarks += [*table.remarks, *(_DATA["unstated"] if self.size == "paper" else ())]
        return remarks


TABLES = {name: PaperTable(name, **row) for name, row in _DATA["tables"].items()}
"""Tables by name, as in ``bayescl reproduce NAME``."""
