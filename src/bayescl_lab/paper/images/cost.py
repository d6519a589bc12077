"""What the runs of a table take, counted before they start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bayescl_lab.images.datasets import ImageParts, load_images
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.settings import ImageSettings

UNIT = 32
"""Side in pixels of the views in which work is counted."""
_FORWARD = 1 / 3
"""What an image takes in a probe, in trained views: no backward pass."""
_EPOCHS = 100
"""Passes over the training images of the paper's linear probe."""
_COPIES = 4
"""Copies of the parameters in a run's folder: weights, and a checkpoint with Adam's two moments."""


@dataclass(frozen=True)
class RunCost:
    """What one run takes."""

    data: str
    epochs: int
    steps: int  # of the optimizer
    views: float  # trained ones, as many as have the same pixels at 32 x 32
    probes: float  # what the probes take, in trained views
    disk: int  # bytes of its checkpoint and weights


def costs_of(runs: Iterable[ImageSettings]) -> list[RunCost]:
    """What each of some runs takes, from its settings and number of images.

    Raises:
        ValueError: if a data set cannot be used.
    """
    parts: dict[tuple[object, ...], ImageParts] = {}
    bytes_of: dict[str, int] = {}
    costs = []
    for settings in runs:
        key = settings.data, settings.classes, settings.max_train_images  # and of evaluation
        if key not in parts:
            parts[key] = load_images(settings.data, **settings.choice_of_images())
        train, evaluation = parts[key].train, parts[key].evaluation
        if settings.encoder not in bytes_of:
            model = build_model(settings, train, steps_per_epoch=1)
            bytes_of[settings.encoder] = 4 * sum(
                parameter.numel() for parameter in model.parameters()
            )
        side = settings.view_size or max(train.image_shape[1:])
        steps = settings.epochs * (len(train) // settings.batch_size)
        views = 2 * settings.batch_size * steps * (side / UNIT) ** 2
        whole = (max(train.image_shape[1:]) / UNIT) ** 2
        probed = whole * _FORWARD * (len(train) + (0 if evaluation is None else len(evaluation)))
        if settings.linear_protocol == "paper":
            probed += _EPOCHS * _FORWARD * len(train) * (side / UNIT) ** 2
        disk = _COPIES * bytes_of[settings.encoder]
        costs.append(RunCost(settings.data, settings.epochs, steps, views, probed, disk))
    return costs
