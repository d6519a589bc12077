"""The ranking table: the settings to try, its cells, and a request for some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pydantic.dataclasses

from bayescl.checks import check_choice
from bayescl_lab._fields import Count, Words
from bayescl_lab.compare.tuning import Plan, Values, settings_of
from bayescl_lab.ranking.data import RankingData, Split
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.runs.losses import RankingLoss, ranking_losses
from bayescl_lab.runs.ranking.settings import RankingSettings


@dataclass(frozen=True)
class RankingPlan(Plan[RankingSettings]):
    """How to choose the settings of one data set and encoder.

    Every run is evaluated on the validation part during training and stops early, so it also
    chooses its number of epochs.

    Attributes:
        regularizations: penalties tried for EASE; empty to leave it out.
        ials_settings: settings tried for iALS, by the fields of
            :class:`~bayescl_lab.runs.ranking.settings.IALSSettings`; empty to leave it out.
        item_norm_exponents: exponents tried on the chosen run of each loss, without retraining.
        final_epochs: epochs of the runs evaluated on test, if trials are shorter; else each loss
            uses the number of epochs that its trial chose.
    """

    regularizations: Sequence[float] = (50.0, 100.0, 200.0, 300.0, 500.0, 1000.0)
    ials_settings: Sequence[Values] = ()
    item_norm_exponents: Sequence[float] = (0.0,)
    final_epochs: int | None = None

    def final(
        self,
        loss: str,
        values: Values,
        *,
        epochs: int,
        seed: int,
        item_norm_exponent: float = 0.0,
    ) -> RankingSettings:
        """The settings of one run on training and validation part together, evaluated on test."""
        return replace(
            self.fixed,
            loss=RankingLoss(loss, dict(values)),
            seed=seed,
            evaluate_on="test",
            item_norm_exponent=item_norm_exponent,
            watch_every=0,
            patience=0,
            epochs=self.final_epochs or epochs,
        )


_ML_MF = RankingPlan(
    fixed=RankingSettings(
        encoder="mf",
        candidates="all",
        batch_size=2048,
        lr=1e-2,
        epochs=7,
        watch_every=1,
        patience=1,
        device="cpu",
    ),
    loss_grids={
        "info_nce": {"temperature": (0.15, 0.2, 0.25)},
        "debiased": {"temperature": (0.15, 0.2, 0.25), "tau_plus": (0.01,)},
        "hard": {"temperature": (0.2, 0.25, 0.3), "concentration": (0.1,), "tau_plus": (0.01,)},
        "bayesian": {"temperature": (0.15, 0.2, 0.25), "beta": (0.7,), "alpha": (0.9,)},
        "bpr": {"temperature": (0.1, 0.15, 0.2)},
    },
    ials_settings=settings_of(
        {"unobserved_weight": (0.3, 0.5, 1.0), "regularization": (0.005, 0.01)}
    ),
)
"""Three settings for each loss. What they share was found with InfoNCE on the validation part:
all items as candidates were better there than 64 to 512 drawn ones."""

_ML_LIGHTGCN = replace(
    _ML_MF,
    fixed=replace(_ML_MF.fixed, encoder="lightgcn", layers=1, batch_size=4096, lr=2e-2),
)

_SPARSE_MF = RankingPlan(
    fixed=RankingSettings(
        encoder="mf",
        batch_size=8192,
        count=2048,
        lr=3e-2,
        weight_decay=0.0,
        schedule="cosine",
        epochs=3,
        watch_every=3,
        device="cpu",
    ),
    loss_grids={
        "info_nce": {"temperature": (0.1, 0.12)},
        "bayesian": {"temperature": (0.1, 0.12), "alpha": (0.9,), "beta": (0.7,)},
    },
    regularizations=(50.0,),
    ials_settings=settings_of(
        {"unobserved_weight": (0.005, 0.01, 0.02), "regularization": (0.003, 0.006)}
    ),
    final_epochs=30,
)
"""For large data: short trials, and one penalty of EASE, whose fits take minutes; it was found with
popular items alone. What the losses share was found with InfoNCE on the validation part
of Gowalla: thousands of candidates, large steps, a temperature near 0.1, and a user's known items
masked."""

_SPARSE_LIGHTGCN = replace(
    _SPARSE_MF,
    fixed=replace(_SPARSE_MF.fixed, encoder="lightgcn", layers=2, lr=5e-2),
    item_norm_exponents=(0.0, 0.25, 0.5, 0.75, 1.0),
    final_epochs=22,
)
"""Propagation gives items with many users longer embeddings, after few epochs as after many; those
of a table grow with training, so that short trials say nothing about them."""


def _elsewhere(plan: RankingPlan, *, trial: int, final: int) -> RankingPlan:
    """A plan for data sets without earlier trials, with temperatures further apart.

    On the validation part of Yelp2018, EASE of popular items needs a larger penalty than on that of
    Gowalla, and iALS larger weights.
    """
    temperatures = (0.1, 0.15)
    return replace(
        plan,
        fixed=replace(plan.fixed, epochs=trial, watch_every=trial),
        loss_grids={
            loss: {**grid, "temperature": temperatures} for loss, grid in plan.loss_grids.items()
        },
        regularizations=(200.0,),
        ials_settings=settings_of(
            {"unobserved_weight": (0.01, 0.02, 0.04), "regularization": (0.003, 0.006)}
        ),
        final_epochs=final,
    )


_PLANS: dict[tuple[str, str], RankingPlan] = {
    ("ml-100k", "mf"): _ML_MF,
    ("ml-100k", "lightgcn"): _ML_LIGHTGCN,
    ("gowalla", "mf"): _SPARSE_MF,
    ("gowalla", "lightgcn"): _SPARSE_LIGHTGCN,
    ("yelp2018", "mf"): _elsewhere(_SPARSE_MF, trial=3, final=6),
    ("yelp2018", "lightgcn"): _elsewhere(_SPARSE_LIGHTGCN, trial=3, final=6),
    ("amazon-book", "mf"): _elsewhere(_SPARSE_MF, trial=3, final=6),
    ("amazon-book", "lightgcn"): _elsewhere(_SPARSE_LIGHTGCN, trial=3, final=6),
}


def plan_for(data: RankingData, encoder: str) -> RankingPlan:
    """The plan for a data set and an encoder; MovieLens-100k's if there is none."""
    plan = _PLANS.get((data.data, encoder))
    if plan is None:
        plan = _PLANS["ml-100k", encoder]
    return replace(plan, fixed=replace(plan.fixed, data=data, encoder=encoder))


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
    )


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
        known = tuple(self.plan.loss_grids)
        for loss in self.losses:
            check_choice("loss", loss, ranking_losses())
            if loss not in known:
                raise ValueError(
                    f"the plan of {self.name} has settings for {', '.join(known)}, not {loss}"
                )
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
        data = self.plan.fixed.data
        return "-".join([Path(data.data).name, *([data.split] if data.split else [])])

    def most_epochs(self) -> int:
        """Total epochs of all runs, if none stops early."""
        tried = sum(len(settings_of(self.plan.loss_grids[loss])) for loss in self.losses)
        return (tried + self.seeds * len(self.losses)) * self.plan.fixed.epochs


@pydantic.dataclasses.dataclass(frozen=True)
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
