"""The requested part of a table of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any, Literal

import torch
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Words, at_least
from bayescl_lab.paper.images.sizes import Size
from bayescl_lab.paper.images.tables import Cell, PaperTable
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.settings import Device, StoredSettings


@dataclass(frozen=True)
class TableRequest(StoredSettings):
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

    def part_of(self, tables: Sequence[PaperTable]) -> list[PaperTable]:
        """The tables that have a requested cell.

        Raises:
            ValueError: if none of them has a requested data set or loss.
        """
        cells = [cell for table in tables for cell in table.cells(self.size)]
        for what, names, known in (
            ("datasets", self.datasets, [cell.settings.data for cell in cells]),
            ("losses", self.losses, [cell.settings.loss.loss for cell in cells]),
        ):
            for name in names:
                if name not in known:
                    choices = ", ".join(dict.fromkeys(known))
                    raise ValueError(f"{what} must be some of {choices}, got {name!r}")
        return [table for table in tables if self.cells(table)]

    def cells(self, table: PaperTable) -> list[Cell]:
        """The requested cells of a table, with their settings."""
        changes: dict[str, Any] = {"device": self.device, "ranks": self.ranks}
        if self.epochs is not None:
            changes["epochs"] = self.epochs
        if self.max_train_images is not None:
            changes["max_train_images"] = self.max_train_images
            changes["max_evaluation_images"] = self.max_train_images
        if not self.compiled:
            changes["compiled"] = False
        return [
            replace(cell, settings=replace(cell.settings, **changes))
            for cell in table.cells(self.size)
            if not self.datasets or cell.settings.data in self.datasets
            if not self.losses or cell.settings.loss.loss in self.losses
        ]

    def runs(self, table: PaperTable) -> dict[str, ImageSettings]:
        """The settings of every run by name, seed by seed, so that cells take turns."""
        return {
            f"{cell.name}-seed{seed}": replace(cell.settings, seed=seed)
            for seed in self.seeds_of(table)
            for cell in self.cells(table)
        }

    def seeds_of(self, table: PaperTable) -> range:
        """The seeds of every cell."""
        return range(self.seeds or table.seeds(self.size))

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command."""
        names = {"datasets": ",".join(self.datasets), "losses": ",".join(self.losses)}
        return asdict(self) | names

    def is_comparable(self, table: PaperTable) -> bool:
        """Whether the paper's values can be compared with ours."""
        as_long = self.epochs in (None, table.cells(self.size)[0].settings.epochs)
        return self.size == "paper" and as_long and self.max_train_images is None
