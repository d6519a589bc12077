"""The ranking table: the settings to try, its cells, and a request for some of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import pydantic.dataclasses
import yaml

from bayescl.checks import check_choice
from bayescl_lab._fields import Count, Words
from bayescl_lab.compare.tuning import (
    TUNING_SEED,
    Grid,
    Values,
    check_once,
    check_same_budget,
    settings_of,
)
from bayescl_lab.ranking.data import RankingData, Split
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.losses import losses_of, ranking_loss
from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.settings import StoredSettings


@dataclass(frozen=True)
class RankingPlan:
    """How to choose the settings of one data set and encoder, as many settings for every loss.

    Every run is evaluated on the validation part during training and stops early, so it also
    chooses its number of epochs.

    Attributes:
        fixed: settings of every run, apart from the loss and what is tried.
        loss_grids: hyper-parameters tried for each loss.
        seeds: of every setting; none of them is a seed of the comparison.
        regularizations: penalties tried for EASE; empty to leave it out.
        ials_settings: settings tried for iALS; empty to leave it out.
        rankings: values of ``propagate`` and ``item_norm_exponent`` tried on the chosen run of each
            loss, without training again.
        final_epochs: epochs of the runs evaluated on test, if trials are shorter; else each loss
            uses the number of epochs that its trial chose.
    """

    fixed: RankingSettings
    loss_grids: Mapping[str, Grid]
    seeds: Sequence[int] = (TUNING_SEED,)
    regularizations: Sequence[float] = (50.0, 100.0, 200.0, 300.0, 500.0, 1000.0)
    ials_settings: Sequence[Values] = ()
    rankings: Sequence[Values] = ({},)
    final_epochs: int | None = None

    def __post_init__(self) -> None:
        check_same_budget(self.loss_grids)

    def tried(self, loss: str, values: Values, seed: int) -> RankingSettings:
        """The settings of one run on the validation part."""
        made = ranking_loss(loss, dict(values))
        return replace(self.fixed, loss=made, seed=seed, evaluate_on="validation")

    def final(
        self, loss: str, values: Values, *, epochs: int, seed: int, ranking: Values
    ) -> RankingSettings:
        """The settings of one run on training and validation part together, evaluated on test."""
        return replace(
            self.fixed,
            loss=ranking_loss(loss, dict(values)),
            seed=seed,
            evaluate_on="test",
            **ranking,
            watch_every=0,
            patience=0,
            epochs=self.final_epochs or epochs,
        )


def plan_for(data: RankingData, encoder: str) -> RankingPlan:
    """The plan for a data set and an encoder; MovieLens-100k's if there is none."""
    file = Path(__file__).with_name("ranking_plans.yaml")
    plans = yaml.safe_load(file.read_text("utf-8"))
    plan = dict(plans.get(data.data, plans["ml-100k"])[encoder])
    return RankingPlan(
        fixed=RankingSettings(data=data, **plan.pop("fixed")),
        ials_settings=settings_of(plan.pop("ials_grid")),
        rankings=settings_of(plan.pop("rankings_grid", {"propagate": [0]})),
        **plan,
    )


def smoke(plan: RankingPlan) -> RankingPlan:
    """One setting per loss and two epochs, to check that everything works."""
    return replace(
        plan,
        fixed=replace(plan.fixed, epochs=2, watch_every=min(plan.fixed.watch_every, 2)),
        loss_grids={
            loss: {name: values[:1] for name, values in grid.items()}
            for loss, grid in plan.loss_grids.items()
        },
        # EASE of a large catalogue, which has short trials, takes many minutes.
        regularizations=tuple(plan.regularizations)[:1] if plan.final_epochs is None else (),
        ials_settings=[{**values, "epochs": 2} for values in plan.ials_settings[:1]],
        final_epochs=None,
    )


@dataclass(frozen=True)
class RankingCell:
    """One cell of the table: a data set and an encoder, with several seeds of each loss."""

    plan: RankingPlan
    losses: tuple[str, ...]
    seeds: int

    def __post_init__(self) -> None:
        known = tuple(self.plan.loss_grids)
        for loss in self.losses:
            check_choice("loss", loss, losses_of("ranking"))
            if loss not in known:
                raise ValueError(
                    f"the plan of {self.name} has settings for {', '.join(known)}, not {loss}"
                )
        check_once("losses", self.losses, "every loss")

    @property
    def name(self) -> str:
        """The cell as a part of a file name."""
        return self._name_with(self.plan.fixed.encoder)

    @property
    def baselines_name(self) -> str:
        """A folder's name for the baselines, which cells of the same data share."""
        return self._name_with("baselines")

    def _name_with(self, last: str) -> str:
        data = self.plan.fixed.data
        return "-".join(filter(None, (Path(data.data).name, data.split, last)))

    def most_epochs(self) -> int:
        """Total epochs of all runs, if none stops early."""
        plan, trial_epochs = self.plan, self.plan.fixed.epochs
        tried = sum(len(settings_of(plan.loss_grids[loss])) for loss in self.losses)
        finals = self.seeds * len(self.losses)
        return tried * trial_epochs + finals * (plan.final_epochs or trial_epochs)


@pydantic.dataclasses.dataclass(frozen=True)
class RankingRequest(StoredSettings):
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
            check_once(name, getattr(self, name))
        for encoder in self.encoders:
            check_choice("encoder", encoder, tuple(ENCODERS))

    def cells(self) -> list[RankingCell]:
        """The requested cells; a ``ValueError`` if a loss is unknown, or not in a plan."""
        cells = []
        for data, encoder in itertools.product(self.data, self.encoders):
            plan = plan_for(RankingData(data, self.split), encoder)
            plan = smoke(plan) if self.size == "smoke" else plan
            cells.append(RankingCell(plan, self.losses or tuple(plan.loss_grids), self.seeds))
        return cells
