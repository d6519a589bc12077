"""The requested part of a table of the paper."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from bayescl._fields import Count, check_fields
from bayescl.experiments.images.paper.sizes import Size
from bayescl.experiments.images.paper.table import Cell, PaperTable
from bayescl.runs.devices import Device
from bayescl.runs.images.settings import ImageSettings
from bayescl.runs.settings import StoredSettings


@dataclass(frozen=True)
class TableRequest(StoredSettings):
    """Which part of a table to make, and at which size.

    Attributes:
        size: smoke takes minutes on a CPU with scikit-learn's digits; paper needs a GPU.
        datasets: comma-separated names of some of the table's data sets; default: all.
        losses: comma-separated names of some of the table's losses; default: all.
        seeds: number of seeds; default: the table's own.
        epochs: epochs of every run; default: as for the size. With another number, the paper's
            values are not shown.
        device: where to train.

    Raises:
        ValueError: if a value is out of its range, or the paper's size is requested without a GPU
            and without "cpu".
    """

    size: Size = "smoke"
    datasets: str = ""
    losses: str = ""
    seeds: Count | None = None
    epochs: Count | None = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        check_fields(self)
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
        for wanted, name, values in (
            (self.datasets, "datasets", [cell.settings.data for cell in cells]),
            (self.losses, "losses", [cell.settings.loss.loss for cell in cells]),
        ):
            for one in _split(wanted):
                if one not in values:
                    known = ", ".join(dict.fromkeys(values))
                    raise ValueError(f"{name} must be some of {known} in this table, got {one!r}")
        chosen = [
            cell
            for cell in cells
            if cell.settings.data in (_split(self.datasets) or [cell.settings.data])
            and cell.settings.loss.loss in (_split(self.losses) or [cell.settings.loss.loss])
        ]
        own: dict[str, Any] = {} if self.epochs is None else {"epochs": self.epochs}
        return [
            replace(cell, settings=replace(cell.settings, device=self.device, **own))
            for cell in chosen
        ]

    def runs(self, table: PaperTable) -> dict[str, ImageSettings]:
        """The settings of every run by name, seed by seed, so that cells take turns."""
        cells = self.cells(table)
        return {
            f"{cell.name}-seed{seed}": replace(cell.settings, seed=seed)
            for seed in range(self.seeds or table.seeds[self.size])
            for cell in cells
        }

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command; losses only if some were chosen."""
        config = asdict(self)
        return config if self.losses else {key: config[key] for key in config if key != "losses"}

    def is_comparable(self, table: PaperTable) -> bool:
        """Whether the paper's values can be compared with ours."""
        own = {cell.settings.epochs for cell in table.cells(self.size)}
        return self.size == "paper" and (self.epochs is None or {self.epochs} == own)


def _split(names: str) -> list[str]:
    """Comma-separated names."""
    return [name.strip() for name in names.split(",") if name.strip()]
