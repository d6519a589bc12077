"""The requested part of a table of the paper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Annotated, Any

import torch
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, at_least
from bayescl_lab.paper.images.sizes import Size
from bayescl_lab.paper.images.table import Cell, PaperTable
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.processes import Device
from bayescl_lab.runs.settings import StoredSettings


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
        if self.losses and not table.has_losses:
            raise ValueError(
                f"the table {table.name} has no losses to choose from, got {self.losses}"
            )
        cells = table.cells(self.size)
        for name, known in table.offered(self.size).items():
            for one in _split(getattr(self, name)):
                if one not in known:
                    raise ValueError(
                        f"{name} must be some of {', '.join(known)} in this table, got {one!r}"
                    )
        chosen = [
            cell
            for cell in cells
            if cell.settings.data in (_split(self.datasets) or [cell.settings.data])
            and cell.settings.loss.loss in (_split(self.losses) or [cell.settings.loss.loss])
        ]
        own: dict[str, Any] = {} if self.epochs is None else {"epochs": self.epochs}
        if self.max_train_images is not None:
            own["max_train_images"] = self.max_train_images
        if not self.compiled:
            own["compiled"] = False
        return [
            replace(cell, settings=replace(cell.settings, device=self.device, **own))
            for cell in chosen
        ]

    def within(self, tables: Iterable[PaperTable]) -> dict[str, TableRequest]:
        """The request for each of several tables, by name, without tables that have no part in it.

        Raises:
            ValueError: if none of the tables has a requested data set or loss.
        """
        offered = {table.name: table.offered(self.size) for table in tables}
        wanted = {"datasets": _split(self.datasets), "losses": _split(self.losses)}
        for what, names in wanted.items():
            known = dict.fromkeys(one for by in offered.values() for one in by[what])
            for one in names:
                if one not in known:
                    raise ValueError(f"{what} must be some of {', '.join(known)}, got {one!r}")
        found = {}
        for table, by in offered.items():
            own = {
                what: [one for one in names if one in by[what]] for what, names in wanted.items()
            }
            if all(own[what] or not wanted[what] for what in own):
                found[table] = replace(
                    self, datasets=",".join(own["datasets"]), losses=",".join(own["losses"])
                )
        return found

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


def _split(names: str) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in names.split(",") if name.strip()]
