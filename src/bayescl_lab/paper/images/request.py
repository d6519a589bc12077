"""The requested part of a table of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Annotated, Any

import torch
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, at_least
from bayescl_lab.paper.images.sizes import Size
from bayescl_lab.paper.images.table import Cell, PaperTable
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
    datasets: str = ""
    losses: str = ""
    seeds: Count | None = None
    epochs: Count | None = None
    max_train_images: Annotated[int, at_least(2)] | None = None
    device: Device = "auto"
    compiled: bool = True

    def __post_init__(self) -> None:
        if self.size == "paper" and self.device == "auto" and not torch.cuda.is_available():
            raise ValueError("size paper takes weeks without a GPU: say --device cpu to try it")

    def cells(self, table: PaperTable) -> list[Cell]:
        """The requested cells, with their settings.

        Raises:
            ValueError: if there is no such data set or loss in the table.
        """
        wanted = self._wanted()
        if self.losses and not table.has_losses:
            raise ValueError(
                f"the table {table.name} has no losses to choose from, got {self.losses}"
            )
        _check_known(wanted, table.offered(self.size), " in this table")
        own: dict[str, Any] = {"epochs": self.epochs, "max_train_images": self.max_train_images}
        own = {name: value for name, value in own.items() if value is not None}
        if not self.compiled:
            own["compiled"] = False
        return [
            replace(cell, settings=replace(cell.settings, device=self.device, **own))
            for cell in table.cells(self.size)
            if cell.settings.data in (wanted["datasets"] or [cell.settings.data])
            and cell.settings.loss.loss in (wanted["losses"] or [cell.settings.loss.loss])
        ]

    def within(self, tables: Iterable[PaperTable]) -> dict[str, TableRequest]:
        """The request for each of several tables, by name, without tables that have no part in it.

        Raises:
            ValueError: if none of the tables has a requested data set or loss.
        """
        offered = {table.name: table.offered(self.size) for table in tables}
        wanted = self._wanted()
        known = {what: [name for by in offered.values() for name in by[what]] for what in wanted}
        _check_known(wanted, known)
        requests = {}
        for table, by in offered.items():
            own = {what: [one for one in wanted[what] if one in by[what]] for what in wanted}
            if all(own[what] or not wanted[what] for what in own):
                words: dict[str, Any] = {what: ",".join(names) for what, names in own.items()}
                requests[table] = replace(self, **words)
        return requests

    def _wanted(self) -> dict[str, list[str]]:
        """The named data sets and losses; an empty list stands for all."""
        return {
            what: [name.strip() for name in names.split(",") if name.strip()]
            for what, names in (("datasets", self.datasets), ("losses", self.losses))
        }

    def runs(self, table: PaperTable) -> dict[str, ImageSettings]:
        """The settings of every run by name, seed by seed, so that cells take turns."""
        cells = self.cells(table)
        return {
            f"{cell.name}-seed{seed}": replace(cell.settings, seed=seed)
            for seed in range(self.seeds or table.seeds[self.size])
            for cell in cells
        }

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command; some only if they are not the default."""
        config = asdict(self)
        plain = {"losses": "", "max_train_images": None, "compiled": True}
        return {key: config[key] for key in config if key not in plain or config[key] != plain[key]}

    def is_comparable(self, table: PaperTable) -> bool:
        """Whether the paper's values can be compared with ours."""
        own = {cell.settings.epochs for cell in table.cells(self.size)}
        as_long = self.epochs is None or {self.epochs} == own
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
