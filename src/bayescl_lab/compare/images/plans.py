"""What is tried before a comparison: grids of the same size for every loss, per data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bayescl_lab.compare.grids import Grid, check_same_budget
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings


@dataclass(frozen=True)
class TuningPlan:
    """How the settings of one data set's comparison are chosen.

    Every setting is tried with the same seeds and epochs.

    Attributes:
        name: of the data set's results and of its recorded choice.
        fixed: settings of every run, apart from the loss and what is tried.
        seeds: of every setting; none of them is a seed of the comparison.
        shared_grid: settings tried for all losses together.
        loss_grids: hyper-parameters tried for each loss.

    Raises:
        ValueError: if one loss would get more settings than another.
    """

    name: str
    fixed: Mapping[str, Any]
    seeds: tuple[int, ...]
    shared_grid: Grid
    loss_grids: Mapping[str, Grid]

    def __post_init__(self) -> None:
        check_same_budget(self.loss_grids)

    def settings(
        self,
        loss: str,
        hyperparameters: Mapping[str, float],
        shared: Mapping[str, float],
        *,
        seed: int,
        data: str | None = None,
    ) -> ImageSettings:
        """The settings of one run; ``data`` stands in for the plan's own place of the images."""
        values = {**self.fixed, **shared, "seed": seed, "evaluate_on": "validation"}
        if data is not None:
            values["data"] = data
        return ImageSettings(loss=LossSettings(loss, dict(hyperparameters)), **values)


_TWELVE_TEMPERATURES = (0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)

DIGITS = TuningPlan(
    name="digits",
    fixed={"data": "digits", "device": "cpu"},
    seeds=(1000, 1001, 1002),
    shared_grid={"strength": (0.5, 0.75, 1.0, 1.25), "lr": (1e-3, 3e-3, 1e-2)},
    loss_grids={
        "info_nce": {"temperature": _TWELVE_TEMPERATURES},
        "debiased": {"temperature": (0.2, 0.3, 0.5, 0.7), "tau_plus": (0.05, 0.1, 0.15)},
        "hard": {
            "temperature": (0.3, 0.5, 0.7, 1.0),
            "tau_plus": (0.1,),
            "concentration": (0.25, 0.5, 1.0),
        },
        "bayesian": {
            "temperature": (0.2, 0.3, 0.5, 0.7),
            "tau_plus": (0.1,),
            "alpha": (0.8, 0.9, 1.0),
            "beta": (0.5,),
        },
        "latent": {
            "temperature": (0.15, 0.2, 0.25, 0.3),
            "tau_plus": (0.1,),
            "attraction": (0.5, 1.0, 2.0),
        },
        "oracle": {"temperature": _TWELVE_TEMPERATURES},
        "attracting_oracle": {"temperature": _TWELVE_TEMPERATURES},
    },
)
"""Twelve settings for each loss, 288 runs: about 20 minutes on two cores.

``tau_plus`` = 0.1 is one over the number of classes.
"""

_SIX_TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_THREE_TEMPERATURES = (0.2, 0.5, 1.0)

CIFAR10_JPEG = TuningPlan(
    name="cifar10-jpeg",
    fixed={
        "data": "data/cifar10-jpeg",
        "max_train_images": 4000,
        "width": 32,
        "stride": 2,
        "augmentation": "simclr",
        "epochs": 6,
        "device": "cpu",
    },
    seeds=(1000,),
    shared_grid={"strength": (0.5, 1.0), "lr": (1e-3, 3e-3)},
    loss_grids={
        "info_nce": {"temperature": _SIX_TEMPERATURES},
        "debiased": {"temperature": _THREE_TEMPERATURES, "tau_plus": (0.05, 0.1)},
        "hard": {
            "temperature": _THREE_TEMPERATURES,
            "tau_plus": (0.1,),
            "concentration": (0.5, 1.0),
        },
        "bayesian": {
            "temperature": _THREE_TEMPERATURES,
            "tau_plus": (0.1,),
            "alpha": (0.9,),
            "beta": (0.5, 0.9),
        },
        "latent": {
            "temperature": (0.2, 0.25, 0.5),
            "tau_plus": (0.1,),
            "attraction": (0.5, 1.0),
        },
        "oracle": {"temperature": _SIX_TEMPERATURES},
    },
)
"""Six settings for each loss, 40 runs on fewer images and epochs than the comparison's.

The Bayesian loss has its ``alpha`` from the paper; its ``beta`` is 0.5, without hardness, or one
less one over the number of classes. There is one seed: among settings that come close to one
another, chance chooses.
"""

PLANS = {plan.name: plan for plan in (DIGITS, CIFAR10_JPEG)}
"""Every plan by its name."""
