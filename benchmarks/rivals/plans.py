"""What is tried for each method on each data set: as many settings as for the library's losses.

The library's losses have the choice in ``results/<name>/settings.json``, made with the same number
of settings, the same seeds and the same criterion; strength of views and learning rate are its too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuned_comparison import Plan

from rivals.library import (
    LOSSES,
    PLANS,
    Grid,
    LossSettings,
    data_title,
    loss_title,
    measure_title,
)
from rivals.training import RivalSettings, train_rival

NAMES = {
    "fnc_eliminate": "FNC, left out",
    "fnc_attract": "FNC, attracted",
    "glofnd": "GloFND",
    "nnclr": "NNCLR",
    "swav": "SwAV",
}
"""What a reader sees, in the order of tables."""

ORDER = (
    *(loss for loss in LOSSES if "oracle" not in loss),
    *NAMES,
    *(loss for loss in LOSSES if "oracle" in loss),
)
"""Methods in the order of tables, oracles last."""

_FNC_DIGITS: Grid = {
    "temperature": (0.2, 0.3, 0.5),
    "top_k": (10, 50),
    "threshold": (0.7, 0.8),
}
_FNC_CIFAR: Grid = {"temperature": (0.2, 0.5, 1.0), "top_k": (10,), "threshold": (0.7, 0.9)}
GRIDS: dict[str, dict[str, Grid]] = {
    "digits": {
        "fnc_eliminate": _FNC_DIGITS,
        "fnc_attract": _FNC_DIGITS,
        "glofnd": {
            "temperature": (0.2, 0.3, 0.5, 0.7),
            "share": (0.05, 0.1, 0.15),
        },
        "nnclr": {"temperature": (0.1, 0.2, 0.3, 0.5), "queue": (256, 1024, 4096)},
        "swav": {
            "temperature": (0.1, 0.2),
            "epsilon": (0.03, 0.05),
            "prototypes": (15, 30, 100),
        },
    },
    "cifar10-jpeg": {
        "fnc_eliminate": _FNC_CIFAR,
        "fnc_attract": _FNC_CIFAR,
        "glofnd": {"temperature": (0.2, 0.5, 1.0), "share": (0.05, 0.1)},
        "nnclr": {"temperature": (0.1, 0.2, 0.5), "queue": (1024, 4096)},
        "swav": {"temperature": (0.1,), "epsilon": (0.03, 0.05), "prototypes": (30, 100, 300)},
    },
}
"""Hyper-parameters to try, by data set and method."""

COMPARED: dict[str, dict[str, Any]] = {
    "digits": {},
    "cifar10-jpeg": {
        "max_train_images": 10_000,
        "epochs": 15,
        "width": 16,
        "channels_last": True,
    },
}
"""What the comparison has in place of the tuning plan's settings, as the library's own has."""

RESULTS = Path(__file__).parents[2] / "results"
"""Where the library's own tuning is recorded."""

_LABELS = ("few_label_1", "few_label_5")


def image_plan(
    name: str, *, data: str | None = None, given: Mapping[str, Any] | None = None
) -> Plan:
    """The plan of a data set.

    Args:
        name: a key of :data:`GRIDS`.
        data: where the images are; the library's own plan's place by default.
        given: settings of every run in place of the plan's, for quick looks.
    """
    library = PLANS[name]
    chosen = json.loads((RESULTS / name / "settings.json").read_text(encoding="utf-8"))["choice"]

    def settings(
        method: str,
        values: Mapping[str, Any],
        *,
        shared: Mapping[str, Any],
        seed: int,
        evaluate_on: str,
    ) -> RivalSettings:
        base = library.settings("info_nce", {}, chosen["shared"], seed=seed, data=data)
        other = COMPARED[name] if evaluate_on == "test" else {}
        config = {
            **base.as_config(),
            **other,
            **shared,
            **(given or {}),
            "evaluate_on": evaluate_on,
        }
        return RivalSettings(method, values, type(base).from_config(config))

    return Plan(
        name=f"rivals-{name}",
        title=data_title(name),
        grids=GRIDS[name],
        recorded={
            loss: LossSettings(loss, chosen["losses"].get(loss, {})).resolved() for loss in LOSSES
        },
        tuning_seeds=library.seeds,
        settings=settings,
        train=train_rival,
        criterion=_LABELS,
        scores=(*_LABELS, "knn", "linear"),
        shares=_LABELS,
        titles={
            **{loss: loss_title(loss) for loss in LOSSES},
            **NAMES,
            **{probe: measure_title(probe) for probe in (*_LABELS, "knn", "linear")},
        },
    )
