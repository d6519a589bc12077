"""Comparison of losses on images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayescl_lab.compare.comparison import Comparison, Results, check_losses
from bayescl_lab.compare.images.recorded import recorded_hyperparameters
from bayescl_lab.compare.images.summary import summarise
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings, choose_hyperparameters, image_losses, takes
from bayescl_lab.runs.parallel import Train

KIND = "compare images"
"""The kind of run: the command that makes it."""


@dataclass(frozen=True)
class ImageComparison(Comparison[ImageSettings, LossSettings]):
    """Losses to compare on the same images; see :class:`.Comparison`."""

    kind = KIND
    settings_type = ImageSettings
    loss_type = LossSettings
    kept = ("settings", "images", "labels_known", "probes", "seconds_per_epoch")

    @property
    def train(self) -> Train:
        """Trains one run in its folder."""
        return train_images

    def with_loss(self, loss: LossSettings, seed: int) -> ImageSettings:
        """The settings of one run; a schedule of alpha applies to the losses that have one."""
        schedule = self.shared.alpha_schedule if takes(loss.loss, "alpha") else "fixed"
        return replace(self.shared, loss=loss, seed=seed, alpha_schedule=schedule)

    def open_data(self, out: Path) -> None:
        """Find bad input before there is a folder.

        Raises:
            ValueError: if the images cannot be used, or have no labels.
        """
        del out
        if not ImageRun(next(iter(self.runs().values()))).parts.has_labels:
            raise ValueError(f"{self.shared.data}: a comparison needs labels to evaluate encoders")

    def figures(self, results: Results, data: None) -> dict[str, Any]:
        """The summary of all runs."""
        del data
        return {"summary": summarise(list(results.values()))}


def settle_losses(
    names: Sequence[str],
    data: str,
    *,
    given: Mapping[str, float | None],
    num_classes: int | None = None,
    hyperparameters: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[LossSettings, ...]:
    """Choose the hyper-parameters of every loss of a comparison.

    Args:
        names: the losses.
        data: the data set whose recorded hyper-parameters are the start.
        given: values for every loss that takes them; None if not given.
        num_classes: sets ``tau_plus`` for the losses that take it.
        hyperparameters: by loss, values that replace recorded ones.

    Raises:
        ValueError: if a name is unknown, or no loss takes a given hyper-parameter.
    """
    own = hyperparameters or {}
    check_losses(names, image_losses(), given, own)
    return tuple(
        choose_hyperparameters(
            loss,
            {name: value for name, value in given.items() if takes(loss, name)},
            num_classes=num_classes if takes(loss, "tau_plus") else None,
            recorded=own.get(loss, recorded_hyperparameters(data, loss)),
        )
        for loss in names
    )
