"""The paper's tables on images as plans; ``tables.yaml`` has their settings and printed figures."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args

import pydantic.dataclasses
import torch
import yaml

from bayescl_lab._fields import Count, Words, at_least
from bayescl_lab.compare.images import ImagePlan
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import BASELINE, LOSSES, SUBJECT, LossSettings, takes
from bayescl_lab.runs.result import SECONDS, Printed, Result, Row, Score
from bayescl_lab.runs.settings import Device

Size = Literal["smoke", "rehearsal", "paper"]
SIZES = get_args(Size)
"""A check of every part in minutes on a CPU; one epoch of a small encoder on the paper's images;
and what the paper did, for GPUs."""

_DATA = yaml.safe_load(files(__package__).joinpath("tables.yaml").read_text(encoding="utf-8"))
DATASETS: Mapping[str, Mapping[str, Any]] = _DATA["datasets"]
"""By data set its title, number of classes and settings, in the order of the paper's tables."""


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: every loss on every data set, with every variation."""

    name: str  # as in "bayescl reproduce NAME"
    title: str
    label: str  # in the paper's source
    printed: str = ""  # the paper's figures; see figures_of
    note: str = ""  # what is wrong with one of them
    datasets: Sequence[str] = tuple(DATASETS)[1:]
    losses: Sequence[str] = ("info_nce", "debiased", "hard", "bayesian")
    measures: Sequence[str] = ("linear", "few_label_1")
    smoke_seeds: int = 2
    remarks: Sequence[str] = ()  # what a reader must know before comparing the figures
    is_timed: bool = False
    two_classes: bool = False
    batches: Any = ()  # by size, or the same at all sizes
    betas: Sequence[float] = ()
    priors: Sequence[float] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def cells(self, size: str) -> Iterator[tuple[Row, ImageSettings]]:
        """The rows of the table at a size, without scores, and the settings of their runs."""
        of_size, printed = _DATA["sizes"][size], figures_of(self.printed, self.note)
        shown = {name: _at(value, size) for name, value in self.settings.items()}
        datasets = of_size.get("datasets", self.datasets)
        for data, loss in itertools.product(datasets, self.losses):
            about = DATASETS[data]
            classes = 2 if self.two_classes else about["classes"]
            changes: dict[str, Any] = {
                "data": data,
                "classes": of_size["two_classes"] if self.two_classes else None,
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
                words = {data, loss, text}
                figures = {
                    measure: figure
                    for place, figure in printed.items()
                    for measure in self.measures
                    if size == "paper" and place <= {*words, measure}
                }
                settings = ImageSettings(loss=LossSettings(loss, taken), **changes)
                yield Row({}, keys=keys, printed=figures), settings

    def _variations(self, size: str, classes: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Return further settings of the table, with the title and text of their column."""
        batches = [("N", str(2 * one - 2), {"batch_size": one}) for one in _at(self.batches, size)]
        betas = [("beta", f"{one:.1f}", {"beta": one}) for one in self.betas]
        priors = [round(share / classes, 6) for share in self.priors]
        return [
            *batches,
            *betas,
            *(("tau_plus", f"{one:g}", {"tau_plus": one}) for one in priors),
        ] or [("", "", {})]


def _at(value: Any, size: str) -> Any:
    """A value of a table that may depend on the size."""
    return value[size] if isinstance(value, dict) else value


@dataclass(frozen=True)
class TablePlan(ImagePlan):
    """The requested part of a table."""

    def finished(self, result: Result) -> Result:
        """The result with the ratio of the Bayesian loss's seconds to InfoNCE's, if timed."""
        if not self.is_timed:
            return result
        seconds: dict[str, dict[str, Score]] = {}
        for row in result.rows.values():
            if row.seconds is not None:
                seconds.setdefault(row.settings["data"], {})[row.settings["loss"]] = row.seconds
        sentences = []
        for data, of in seconds.items():
            if {BASELINE, SUBJECT} <= of.keys():
                pairs = zip(of[SUBJECT].values, of[BASELINE].values, strict=True)
                ratio = Score.of([slow / fast for slow, fast in pairs])
                sentences.append(
                    f"{data}: an epoch with the Bayesian loss takes {ratio.text('.3f')} times "
                    "as long as one with InfoNCE."
                )
        return replace(result, remarks=(*result.remarks, *sentences))


@pydantic.dataclasses.dataclass(frozen=True)
class TableRequest:
    """Which part of a table to make, and at which size.

    Attributes:
        size: smoke takes minutes on a CPU with scikit-learn's digits; rehearsal trains a small
            encoder for one epoch on the paper's data sets; paper needs a GPU.
        datasets: comma-separated names of some of the table's data sets; default: all.
        losses: comma-separated names of some of the table's losses; default: all.
        seeds: number of seeds; default: the table's own.
        epochs: epochs of every run; default: as for the size. With another number, the paper's
            values are not shown.
        max_train_images: train and evaluate on at most this many images, to try a size out;
            default: all. With fewer, the paper's values are not shown.
        ranks: how the Bayesian loss counts ranks: upper as in the paper, or mid, the library's
            default.
        device: where to train.
        compiled: at the paper's size, compile the network with torch.compile, which needs a C
            compiler.

    Raises:
        ValueError: if a value is out of its range, or the paper's size is requested without a GPU
            and without "cpu".
    """

    size: Size = "smoke"
    datasets: Words = ()
    losses: Words = ()
    seeds: Count | None = None
    epochs: Count | None = None
    max_train_images: Annotated[int, at_least(2)] | None = None
    ranks: Literal["upper", "mid"] = "upper"
    device: Device = "auto"
    compiled: bool = True

    def __post_init__(self) -> None:
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError("size paper takes weeks without a GPU: say --device cpu to try it")

    def plans(self, tables: Sequence[PaperTable]) -> list[TablePlan]:
        """The requested part of each table, without those that have none of it.

        Raises:
            ValueError: if none of the tables has a requested data set or loss.
        """
        cells = [settings for table in tables for _, settings in table.cells(self.size)]
        for what, names, known in (
            ("datasets", self.datasets, [settings.data for settings in cells]),
            ("losses", self.losses, [settings.loss.loss for settings in cells]),
        ):
            for name in names:
                if name not in known:
                    choices = ", ".join(dict.fromkeys(known))
                    raise ValueError(f"{what} must be some of {choices}, got {name!r}")
        plans = [self._plan(table) for table in tables]
        return [plan for plan in plans if plan.methods]

    def _plan(self, table: PaperTable) -> TablePlan:
        """The requested part of a table."""
        changes: dict[str, Any] = {"device": self.device, "ranks": self.ranks}
        changes |= {} if self.epochs is None else {"epochs": self.epochs}
        changes |= {} if self.compiled else {"compiled": False}
        if self.max_train_images is not None:
            most = self.max_train_images
            changes |= {"max_train_images": most, "max_evaluation_images": most}
        rows, methods, is_own = {}, {}, self.size == "paper" and self.max_train_images is None
        for row, settings in table.cells(self.size):
            is_own = is_own and self.epochs in (None, settings.epochs)
            name = "-".join(value.replace(" ", "_") for value in row.keys.values())
            if settings.data in (self.datasets or [settings.data]) and settings.loss.loss in (
                self.losses or [settings.loss.loss]
            ):
                rows[name] = row
                methods[name] = replace(settings, **changes)
        if not is_own:
            rows = {name: replace(row, printed={}) for name, row in rows.items()}
        about = _DATA["sizes"][self.size]
        seeds = table.smoke_seeds if self.size == "smoke" else about["seeds"]
        known = Result(rows=rows, title=table.title, remarks=self._remarks(table, is_own=is_own))
        return TablePlan(
            methods,
            range(self.seeds or seeds),
            name=table.name,
            result=known,
            measures=table.measures,
            is_timed=table.is_timed,
        )

    def _remarks(self, table: PaperTable, *, is_own: bool) -> list[str]:
        """Return remarks for the reader."""
        remarks = [_DATA["sizes"][self.size]["protocol"]]
        if self.size == "paper" and not is_own:
            changes = [] if self.epochs is None else [f"{self.epochs} epochs"]
            if self.max_train_images is not None:
                changes.append(f"at most {self.max_train_images} images")
            remarks.append(f"{', '.join(changes)}: the paper's values are left out.")
        remarks += [*table.remarks, *(_DATA["unstated"] if self.size == "paper" else ())]
        if self.ranks == "mid":
            remarks.append("The Bayesian loss counts ranks at their middle, the paper upper ranks.")
        return remarks


def figures_of(table: str, note: str = "") -> dict[frozenset[str], Printed]:
    r"""Figures from a table of text, by the words of their row and the title of their column.

    Figures are of the measure "linear" if they name none. A note begins with the words and the
    column of the figure with which something is wrong.

    Example:
        >>> figures = figures_of("hard bayesian \n cifar10 98.4 99.3±0.22")
        >>> figures[frozenset(("cifar10", "bayesian", "linear"))]
        Printed(value=99.3, spread=0.22, note='')
    """
    header, *rows = (line.split() for line in table.splitlines() or [""])
    noted, _, what = note.partition(": ")
    figures = {}
    for row in rows:
        for column, figure in zip(header, row[-len(header) :], strict=True):
            words = {*row[: -len(header)], column}
            value, _, spread = figure.partition("±")
            wrong = what if words == set(noted.split()) else ""
            measured = words if words & {"linear", "linear_top5", SECONDS} else {*words, "linear"}
            figures[frozenset(measured)] = Printed(
                float(value), float(spread) if spread else None, wrong
            )
    return figures


TABLES = {name: PaperTable(name, **row) for name, row in _DATA["tables"].items()}
"""Every table by its name, as in ``bayescl reproduce NAME``."""
