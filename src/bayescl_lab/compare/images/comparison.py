"""Comparison of losses over seeds on the same images, with everything else equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayescl.checks import check_choice, check_count
from bayescl_lab.compare.images.recorded import recorded_hyperparameters
from bayescl_lab.compare.images.summary import summarise
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import (
    LossSettings,
    choose_hyperparameters,
    image_losses,
    takes,
)
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.run import Result, Work, run_in_folder
from bayescl_lab.runs.settings import StoredSettings

KIND = "compare images"
"""The kind of run: the command that makes it."""

_KEPT = ("settings", "images", "probes", "seconds_per_epoch")
"""Fields kept of a run's result."""


@dataclass(frozen=True)
class ImageComparison(StoredSettings):
    """Losses to compare, and the settings that all runs share.

    Runs with the same seed start from the same weights and see the same batches and views, so
    losses can be compared seed by seed.

    Attributes:
        losses: the losses, each once.
        seeds: number of seeds.
        shared: settings of every run; its own loss is replaced, and its seed is the first one.

    Raises:
        ValueError: if a loss is named twice, or there are no losses or seeds.
    """

    losses: tuple[LossSettings, ...]
    seeds: int
    shared: ImageSettings

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        names = [loss.loss for loss in self.losses]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"losses must name every loss once, got {', '.join(names) or 'none'}")

    def runs(self) -> dict[str, ImageSettings]:
        """The settings of every run by its name, seed by seed.

        A schedule of alpha applies to the losses that have one.
        """

        def of(loss: LossSettings, seed: int) -> ImageSettings:
            schedule = self.shared.alpha_schedule if takes(loss.loss, "alpha") else "fixed"
            return replace(self.shared, loss=loss, seed=seed, alpha_schedule=schedule)

        return {
            f"{loss.loss}-seed{seed}": of(loss, seed)
            for seed in range(self.shared.seed, self.shared.seed + self.seeds)
            for loss in self.losses
        }

    def as_config(self) -> dict[str, Any]:
        """The comparison as plain values, every hyper-parameter resolved."""
        config = self.shared.as_config()
        for name in ("loss", *self.shared.loss.resolved()):
            del config[name]
        return {
            "losses": ",".join(loss.loss for loss in self.losses),
            "seeds": self.seeds,
            "hyperparameters": {loss.loss: loss.resolved() for loss in self.losses},
            **config,
        }

    @classmethod
    def _taken_from(cls, values: dict[str, Any], /) -> dict[str, Any]:
        names, seeds = values.pop("losses").split(","), values.pop("seeds")
        by_loss = values.pop("hyperparameters")
        losses = tuple(LossSettings(name, by_loss[name]) for name in names)
        first = with_alpha(losses)
        shared = {"loss": first.loss, **first.hyperparameters, **values}
        values.clear()
        return {"losses": losses, "seeds": seeds, "shared": ImageSettings.from_config(shared)}


def compare_images(
    comparison: ImageComparison,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Result:
    """Train every loss with every seed, evaluate each encoder and summarise.

    Args:
        comparison: the comparison.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: whether to continue the comparison in ``out``: finished runs are kept, an
            interrupted one continues from its last checkpoint.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        The content of ``result.json``: settings, every run's figures, their summary, provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` cannot hold
            the comparison or holds another one.
    """
    check_count("workers", workers, 1)
    runs = comparison.runs()

    def begin() -> Work:
        first = ImageRun(next(iter(runs.values())))  # finds bad input before there is a folder
        if not first.parts.has_labels:
            raise ValueError(
                f"{comparison.shared.data}: a comparison needs labels to evaluate encoders"
            )
        return carry_out

    def carry_out(folder: RunFolder) -> Result:
        results = train_runs(
            runs, folder.path / "runs", train=train_images, workers=workers, progress=progress
        )
        return {
            "settings": comparison.as_config(),
            "runs": {name: {key: results[name][key] for key in _KEPT} for name in runs},
            "summary": summarise([results[name] for name in runs]),
            "workers": workers,
            "threads_per_run": 1,
        }

    return run_in_folder(out, KIND, comparison, begin, resume=resume, what="comparison")


def with_alpha(losses: Sequence[LossSettings]) -> LossSettings:
    """The loss in a comparison's shared settings; a schedule of alpha needs one that has alpha."""
    return next((loss for loss in losses if takes(loss.loss, "alpha")), losses[0])


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
    if not names:
        raise ValueError("losses must name at least one loss, got none")
    for name in names:
        check_choice("loss", name, image_losses())
    unused = set(hyperparameters or {}) - set(names)
    if unused:
        raise ValueError(
            f"hyperparameters names losses that are not compared: {', '.join(sorted(unused))}"
        )
    for name, value in given.items():
        if value is not None and not any(takes(loss, name) for loss in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    return tuple(
        choose_hyperparameters(
            loss,
            {name: value for name, value in given.items() if takes(loss, name)},
            num_classes=num_classes if takes(loss, "tau_plus") else None,
            recorded=(hyperparameters or {}).get(loss, recorded_hyperparameters(data, loss)),
        )
        for loss in names
    )
