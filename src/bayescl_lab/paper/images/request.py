"""The requested part of a table of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

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
        max_train_images: train on at most this many images, to try a size out; default: all. With
            fewer, the paper's values are not shown.
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
    device: Device = "auto"
    compiled: bool = True

    def __post_init__(self) -> None:
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError("size paper takes weeks without a GPU: say --device cpu to try it")

    @property
    def _wanted(self) -> dict[str, tuple[str, ...]]:
        """The named data sets and losses; no names stand for all."""
        return {"datasets": self.datasets, "losses": self.losses}

    def cells(self, table: PaperTable) -> list[Cell]:
        """The requested cells, with their settings.

        Raises:
            ValueError: if there is no such data set or loss in the table.
        """
        offered = table.offered(self.size)
        if self.losses and not offered["losses"]:
            raise ValueError(
                f"the table {table.name} has no losses to choose from, got {', '.join(self.losses)}"
            )
        _check_known(self._wanted, offered, " in this table")
        changes: dict[str, Any] = {"device": self.device}
        if self.epochs is not None:
            changes["epochs"] = self.epochs
        if self.max_train_images is not None:
            changes["max_train_images"] = self.max_train_images
        if not self.compiled:
            changes["compiled"] = False
        return [
            replace(cell, settings=replace(cell.settings, **changes))
            for cell in table.cells(self.size)
            if not self.datasets or cell.settings.data in self.datasets
            if not self.losses or cell.settings.loss.loss in self.losses
        ]

    def within(self, tables: Iterable[PaperTable]) -> dict[str, TableRequest]:
        """The request for each of several tables, by name, without tables that have no part in it.

        Raises:
            ValueError: if none of the tables has a requested data set or loss.
        """
        offers = {table.name: table.offered(self.size) for table in tables}
        known = {
            what: [name for offer in offers.values() for name in offer[what]]
            for what in self._wanted
        }
        _check_known(self._wanted, known)
        requests = {}
        for table, offer in offers.items():
            parts: dict[str, Any] = {
                what: tuple(name for name in names if name in offer[what])
                for what, names in self._wanted.items()
            }
            if all(parts[what] or not names for what, names in self._wanted.items()):
                requests[table] = replace(self, **parts)
        return requests

    def runs(self, table: PaperTable) -> dict[str, ImageSettings]:
        """The settings of every run by name, seed by seed, so that cells take turns."""
        cells = self.cells(table)
        return {
            f"{cell.name}-seed{seed}": replace(cell.settings, seed=seed)
            for seed in range(self.seeds or table.seeds(self.size))
            for cell in cells
        }

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command."""
        return asdict(self) | {what: ",".join(names) for what, names in self._wanted.items()}

    def is_comparable(self, table: PaperTable) -> bool:
        """Whether the paper's values can be compared with ours."""
        as_long = self.epochs in (None, table.cells(self.size)[0].settings.epochs)
        return self.size == "paper" and as_long and self.max_train_images is None


def _check_known(
    wanted: Mapping[str, Iterable[str]], known: Mapping[str, Iterable[str]], where: str = ""
) -> None:
    """Refuse names that are not known."""
    for what, names in wanted.items():
        for name in names:
            if name not in known[what]:
                choices = ", ".join(dict.fromkeys(known[what]))
                raise ValueError(f"{what} must be some of {choices}{where}, got {name!r}")
