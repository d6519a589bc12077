"""The settings of a cell, at the size of a smoke test and at the paper's own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings, takes

Size = Literal["smoke", "rehearsal", "paper"]
SIZES = get_args(Size)
"""A check of every part in minutes on a CPU; one epoch of a small encoder on the paper's images;
and what the paper did, for GPUs."""

DATASETS = ("cifar10", "stl10", "cifar100", "tiny-imagenet")
"""The paper's data sets, in the order of its tables."""

TITLES = {
    "digits": "digits",
    "cifar10": "CIFAR10",
    "stl10": "STL10",
    "cifar100": "CIFAR100",
    "tiny-imagenet": "tinyImageNet",
}
"""Names of data sets in the paper."""

NUM_CLASSES = {"digits": 10, "cifar10": 10, "stl10": 10, "cifar100": 100, "tiny-imagenet": 200}

_BAYESIAN = {
    "cifar10": {"alpha": 0.9, "beta": 0.9},
    "stl10": {"alpha": 0.7, "beta": 1.0},
    "cifar100": {"alpha": 0.7, "beta": 1.0},
    "tiny-imagenet": {"alpha": 0.8, "beta": 1.0},
    "digits": {"alpha": 0.9, "beta": 0.9},
}
"""The authors' settings for all classes of a data set, with ``alpha`` fixed."""

_SHAPES: Mapping[str, Mapping[str, Any]] = {
    "smoke": {"width": 8, "epochs": 2, "device": "auto"},
    "rehearsal": {"width": 8, "augmentation": "simclr", "strength": 1.0, "epochs": 1},
    "paper": {
        "encoder": "resnet50",
        "hidden_dim": 512,
        "embedding_dim": 128,
        "augmentation": "simclr",
        "strength": 1.0,
        "epochs": 400,
        "lr": 1e-3,
        "weight_decay": 1e-6,
        "precision": "bfloat16",
        "channels_last": True,
        "compiled": True,
        "linear_protocol": "paper",
    },
}

_TWO_CLASSES = {"smoke": "3,8", "rehearsal": "2", "paper": "2"}
"""Names of classes, or how many a fixed seed draws; among digits "2" would be a name."""

DATA = yaml.safe_load(files(__package__).joinpath("tables.yaml").read_text(encoding="utf-8"))
"""The tables, the protocol of each size, and how it differs from the authors'."""


def cell_settings(
    size: str, data: str, loss: str, *, two_classes: bool = False, **changes: Any
) -> ImageSettings:
    """The settings of a cell, without its seed, as the authors have them but for the changes.

    Each anchor sees ``2 * batch_size - 2`` negatives; ``tau_plus`` is one over the number of
    classes.
    """
    count = 2 if two_classes else NUM_CLASSES[data]
    values = {"temperature": 0.5}
    if takes(loss, "tau_plus"):
        values["tau_plus"] = 1 / count
    if takes(loss, "concentration"):
        values["concentration"] = 1.0
    if takes(loss, "alpha"):
        values |= {"alpha": 0.9, "beta": 1 - 1 / count} if two_classes else _BAYESIAN[data]
    values |= {name: changes.pop(name) for name in list(changes) if takes(loss, name)}
    settings = {
        "data": data,
        "classes": _TWO_CLASSES[size] if two_classes else None,
        "batch_size": 256,
        "positive_share": 1.0,  # no teacher
        # STL10 trains on crops of 32 pixels and is judged at its full 96.
        "view_size": 32 if data == "stl10" else None,
        **_SHAPES[size],
        **changes,
    }
    return ImageSettings(loss=LossSettings(loss, values), **settings)
