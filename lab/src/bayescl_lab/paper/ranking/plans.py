"""The paper's ranking table as plans. ``plans.yaml`` has the settings to try for each data set."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import pydantic.dataclasses
import yaml

from bayescl._checks import check_choice
from bayescl_lab._fields import Count, Words
from bayescl_lab.compare.plan import Plan, with_values
from bayescl_lab.compare.ranking import RankingPlan
from bayescl_lab.compare.tuning import Values, check_once, settings_of
from bayescl_lab.ranking.data import RankingData, Split
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.losses import losses_of, ranking_loss
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.ranking_run import CRITERION, RankingRun
from bayescl_lab.runs.ranking.ranking_settings import (
    EASE_NAME,
    IALS_NAME,
    POPULARITY,
    BaselineSettings,
    RankingSettings,
)

_PLANS = yaml.safe_load(files(__package__).joinpath("plans.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class CellPlan(RankingPlan):
    """Cell of the table: all losses on one data set with one encoder, tuned on validation.

    Attributes:
        rankings: Values of ``propagate`` and ``item_norm_exponent`` to try on the best run of each
            loss, without training again.
        final_epochs: Number of epochs for the test part. ``None`` for the number of epochs in
            tuning.
    """

    rankings: Sequence[Values] = ({},)
    final_epochs: int | None = None

    @property
    def epochs(self) -> int:
        """Largest number of epochs of all runs."""
        final = [self.final_epochs or one.epochs for one in self.methods.values()]
        tried = [one.epochs for one in self.methods.values()]
        return super().epochs + len(self.seeds) * (sum(final) - sum(tried))

    def adapted(self, settings: RankingSettings, folder: Path) -> RankingSettings:
        """Return the settings for the test part, with the best ranking."""
        ranking = best_ranking(folder, self.rankings)
        return with_values(settings, {"epochs": self.final_epochs or settings.epochs, **ranking})


def best_ranking(folder: Path, tried: Sequence[Values]) -> Values:
    """Return the settings with which a finished run ranks best on the validation part."""
    if len(tried) == 1:
        return tried[0]
    _, run, _ = RankingRun.reopen(folder)

    def score(values: Values) -> float:
        run.model.propagate = values["propagate"]
        run.model.item_norm_exponent = values["item_norm_exponent"]
        return run.evaluate().row.scores[CRITERION].mean

    return max(tried, key=score)


@pydantic.dataclasses.dataclass(frozen=True)
class RankingRequest:
    """Requested cells and size of the ranking table.

    Attributes:
        data: Comma-separated names of data sets, or the path of one.
        split: How the test part is chosen. "author" is the paper's split, for ml-100k.
        encoders: Names of encoders: mf, lightgcn or both, comma-separated.
        losses: Comma-separated names of losses. Default: all in the plan of a data set.
        seeds: Number of seeds for the test part.
        size: Size of the experiments: full, or smoke, a check that takes a minute.
        results: Folder that collects the results of several calls for one table and figure.
            Default: the folder of this call.
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

    def plans(self) -> list[CellPlan]:
        """Return the requested cells; raise ``ValueError`` if a loss is not in a plan."""
        return [
            cell_plan(self, RankingData(data, self.split), encoder)
            for data, encoder in itertools.product(self.data, self.encoders)
        ]


def cell_plan(request: RankingRequest, data: RankingData, encoder: str) -> CellPlan:
    """Return the plan for a data set and an encoder. Default: the plan of MovieLens-100k.

    A smoke test tries one setting per method, with two epochs.
    """
    plan = _PLANS.get(data.data, _PLANS["ml-100k"])[encoder]
    grids, fixed = dict(plan["loss_grids"]), dict(plan["fixed"])
    final_epochs, penalties = plan.get("final_epochs"), plan.get("regularizations", [])
    name = "-".join(filter(None, (Path(data.data).name, data.split)))
    for loss in request.losses:
        check_choice("loss", loss, losses_of("ranking"))
        if loss not in grids:
            known = ", ".join(grids)
            raise ValueError(f"the plan of {name}-{encoder} has settings for {known}, not {loss}")
    check_once("losses", request.losses or list(grids), "every loss")
    tried = {loss: settings_of(grids[loss]) for loss in request.losses or grids}
    ials = settings_of(plan["ials_grid"])
    if request.size == "smoke":
        fixed |= {"epochs": 2}
        tried = {loss: values[:1] for loss, values in tried.items()}
        ials = [{**ials[0], "epochs": 2}]
        penalties, final_epochs = penalties[:1], None
    settings = RankingSettings(data=data, **fixed)
    return CellPlan(
        {loss: with_values(settings, {"loss": ranking_loss(loss)}) for loss in tried},
        range(request.seeds),
        name=f"{name}-{encoder}",
        stages=[tried],
        baselines=_baselines(settings, f"{name}-baselines", penalties, ials),
        rankings=settings_of(plan.get("rankings_grid", {})),
        final_epochs=final_epochs,
    )


def _baselines(
    settings: RankingSettings, name: str, penalties: Sequence[float], ials: Sequence[Values]
) -> Plan[BaselineSettings]:
    """Return the plan of popularity, EASE and iALS, with settings chosen on validation."""
    names: Any = (POPULARITY, *([EASE_NAME] if penalties else []), IALS_NAME)
    methods = {one: BaselineSettings(one, settings.data, dim=settings.dim) for one in names}
    tried: dict[str, Sequence[Values]] = {IALS_NAME: ials}
    if penalties:
        tried[EASE_NAME] = [{"regularization": one} for one in penalties]
    return Plan(methods, [0], fit_baseline, name=name, stages=[tried], tuning_seeds=(0,))
