"""A request for a part of the ranking table, and its cells."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from bayescl.checks import check_choice, check_count
from bayescl_lab._fields import Count, Words
from bayescl_lab.compare.grids import settings_of
from bayescl_lab.compare.ranking.plans import RankingPlan, plan_for, smoke
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.losses import ranking_losses
from bayescl_lab.runs.ranking.data import RankingData, Split


@dataclass(frozen=True)
class RankingCell:
    """One cell of the table.

    Attributes:
        plan: data set, encoder, and the settings to try.
        losses: the losses, each once.
        seeds: number of seeds of the runs evaluated on test.

    Raises:
        ValueError: if a loss is unknown or named twice, or there are no losses or seeds.
    """

    plan: RankingPlan
    losses: tuple[str, ...]
    seeds: int

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        for loss in self.losses:
            check_choice("loss", loss, ranking_losses())
            if loss not in self.plan.loss_grids:
                known = ", ".join(self.plan.loss_grids)
                raise ValueError(f"the plan of {self.name} has settings for {known}, not {loss}")
        if not self.losses or len(set(self.losses)) < len(self.losses):
            raise ValueError(
                f"losses must name every loss once, got {', '.join(self.losses) or 'none'}"
            )

    @property
    def name(self) -> str:
        """The cell as a part of a file name."""
        return f"{self._data_name}-{self.plan.fixed.encoder}"

    @property
    def baselines_name(self) -> str:
        """A folder's name for the baselines, which cells of the same data share."""
        return f"{self._data_name}-baselines"

    @property
    def _data_name(self) -> str:
        """Data set and split."""
        data = self.plan.fixed.data
        return "-".join([Path(data.data).name, *([data.split] if data.split else [])])

    def most_epochs(self) -> int:
        """Total epochs of all runs, if none stops early."""
        grids = [settings_of(self.plan.loss_grids[loss]) for loss in self.losses]
        shared = settings_of(self.plan.shared_grid)
        runs = sum(map(len, grids)) + len(shared) + self.seeds * len(self.losses)
        return runs * self.plan.fixed.epochs


@dataclass(frozen=True)
class RankingRequest:
    """Which cells of the ranking table to make, and at which size.

    Attributes:
        data: comma-separated names of data sets, or the path of one.
        split: how the test part is chosen; "author" is the paper's, for ml-100k.
        encoders: mf, lightgcn or both, comma-separated.
        losses: comma-separated names; default: all in the plan of a data set.
        seeds: number of seeds of the runs on test.
        size: full, or smoke to check in a minute that everything works.
        results: a folder that collects the results of several calls for one table and figure;
            default: the folder of this call.

    Raises:
        ValueError: if a value is out of its range.
    """

    data: Words = ("ml-100k",)
    split: Split | None = None
    encoders: Words = ("mf", "lightgcn")
    losses: Words = ()
    seeds: Count = 5
    size: Literal["full", "smoke"] = "full"
    results: str | None = None

    def __post_init__(self) -> None:
        for name in ("data", "encoders"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"{name} must name each once, got {', '.join(values) or 'none'}")
        for encoder in self.encoders:
            check_choice("encoder", encoder, tuple(ENCODERS))

    def cells(self) -> list[RankingCell]:
        """The requested cells, by data set.

        Raises:
            ValueError: if a loss is unknown, or a plan has no settings for it.
        """
        cells = []
        for data in self.data:
            for encoder in self.encoders:
                plan = plan_for(RankingData(data, self.split), encoder)
                plan = smoke(plan) if self.size == "smoke" else plan
                losses = self.losses or tuple(plan.loss_grids)
                cells.append(RankingCell(plan, losses, self.seeds))
        return cells

    def as_config(self) -> dict[str, Any]:
        """The request as options of the command."""
        config = asdict(self)
        return config | {name: ",".join(config[name]) for name in ("data", "encoders", "losses")}
