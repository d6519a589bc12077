"""Alpha that changes while training: by a schedule, or measured on the encoder as it is.

The value in use is a hyper-parameter of the loss and so part of every checkpoint. When it was set
is part of the callback's own state. What is measured depends on weights, seed and epoch alone, and
leaves weights, statistics of batch normalisation and generators as they were: a resumed run goes
on exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import lightning.pytorch as pl
import torch

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count
from bayescl._randomness import Purpose, derived_seed
from bayescl.diagnostics import score_candidates
from bayescl.estimation import (
    LinearRamp,
    MeasuredAlpha,
    Reading,
    Schedule,
    label_free_alpha,
    macro_auc,
)
from bayescl.runs.images.settings import ImageSettings
from bayescl.vision.features import in_eval_mode
from bayescl.vision.simclr import SimCLR
from bayescl.vision.store import UNLABELLED, ImageStore

LABELS_PER_CLASS = 20
"""Labelled images per class that alpha is measured on; the default."""


class AlphaSource(Protocol):
    """What says which alpha the loss is to have from an epoch on."""

    def alpha(self, model: SimCLR, epoch: int) -> float:
        """Return a value in [0.5, 1]; the same for the same weights and epoch."""
        ...


@dataclass(frozen=True)
class ScheduledAlpha:
    """Alpha as a function of the epoch.

    Attributes:
        schedule: gives the value.
    """

    schedule: Schedule

    def alpha(self, model: SimCLR, epoch: int) -> float:
        """Return the schedule's value."""
        del model
        return self.schedule.value(epoch)


@dataclass(frozen=True)
class LabelledAlpha:
    """Alpha measured as macro-AUC on a small labelled part of the training images.

    Views are compared as in training: one view of each image against the other view of all others.

    Attributes:
        images: the labelled part; see :func:`labelled_part`. Never test images.
        reading: how the AUC becomes alpha; see :func:`bayescl.estimation.alpha_of_auc`.
        seed: the seed of the run.
    """

    images: ImageStore
    reading: Reading = "model"
    seed: int = 0

    def alpha(self, model: SimCLR, epoch: int) -> float:
        """Return what is measured on the model as it is."""
        view_1, view_2 = embedded_views(model, self.images, self.seed, epoch)
        loss: Any = model.loss
        labels = self.images.labels
        auc = macro_auc(
            view_1,
            labels,
            view_2,
            labels,
            own=torch.arange(len(labels), device=labels.device),
            normalize=loss.normalize,
        )
        return MeasuredAlpha(auc, self.reading).alpha


@dataclass(frozen=True)
class LabelFreeAlpha:
    """Alpha estimated from two views of some images, without a label.

    Biased upwards, as two views of an image are more alike than two images of a class: see
    :mod:`bayescl.estimation.label_free`.

    Attributes:
        images: training images; some of them are drawn for each estimate.
        size: how many.
        reading: how the AUC becomes alpha.
        seed: the seed of the run.
    """

    images: ImageStore
    size: int = 512
    reading: Reading = "model"
    seed: int = 0

    def alpha(self, model: SimCLR, epoch: int) -> float:
        """Return the estimate for the model as it is, at the loss's own ``tau_plus``."""
        generator = torch.Generator().manual_seed(
            derived_seed(self.seed, Purpose.ESTIMATES, epoch, 3)
        )
        rows = torch.randperm(len(self.images), generator=generator)[: self.size]
        some = self.images.subset(rows)
        loss: Any = model.loss
        scored = score_candidates(loss, *embedded_views(model, some, self.seed, epoch))
        return label_free_alpha(
            scored.positive,
            scored.unlabeled,
            tau_plus=loss.tau_plus,
            reading=self.reading,
            valid=scored.valid,
        ).alpha


class AlphaCallback(pl.Callback):
    """Set the loss's alpha before the first step of every few epochs.

    Args:
        source: says the value.
        every: epochs between two values, at least 1. The authors measure every 20.

    Attributes:
        set_in: the epoch that the value in use was set in; -1 before the first.

    Raises:
        ValueError: if ``every`` is not positive.
    """

    def __init__(self, source: AlphaSource, *, every: int = 20) -> None:
        self.source = source
        self.every = check_count("every", every, 1)
        self.set_in = -1

    def state_dict(self) -> dict[str, Any]:
        """When the value in use was set; the value itself is in the loss's state."""
        return {"set_in": self.set_in}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.set_in = int(state_dict["set_in"])

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any
    ) -> None:
        """Set a new value if it is time, but never twice in an epoch that was broken off."""
        epoch = trainer.current_epoch
        if epoch % self.every or epoch == self.set_in:
            return
        if not isinstance(pl_module, SimCLR):
            raise TypeError(f"pl_module must be a SimCLR, got {type(pl_module).__name__}")
        # Every device computes the same; that of the first counts, lest rounding tell them apart.
        loss: Any = pl_module.loss
        loss.alpha = trainer.strategy.broadcast(self.source.alpha(pl_module, epoch))
        self.set_in = epoch

    def column(self, trainer: pl.Trainer) -> Mapping[str, float]:
        """The value in use, for a row of ``metrics.csv``."""
        loss: Any = trainer.lightning_module.loss
        return {"alpha": float(loss.alpha)}


def labelled_part(
    images: ImageStore, *, per_class: int = LABELS_PER_CLASS, seed: int = 0
) -> ImageStore:
    """Draw a few images of every class, whose labels alpha may be measured with.

    They stay among the training images, which the loss sees without labels.

    Args:
        images: training images.
        per_class: how many of each class, at least 2; all where there are fewer.
        seed: which ones.

    Returns:
        The images drawn, by class.

    Raises:
        ValueError: if fewer than two classes have two images.

    Example:
        >>> from bayescl.vision.datasets import load_images
        >>> len(labelled_part(load_images("digits").train, per_class=5))
        50
    """
    check_count("per_class", per_class, 2)
    labels = images.labels.cpu()
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 4))
    order = torch.randperm(len(labels), generator=generator)
    classes = labels[labels != UNLABELLED].unique()
    rows = [order[labels[order] == label][:per_class] for label in classes]
    rows = [some for some in rows if len(some) >= 2]
    if len(rows) < 2:
        raise ValueError(
            f"{images.name}: two classes with two labelled images each are needed to measure "
            f"alpha, got {len(rows)}"
        )
    return images.subset(torch.cat(rows))


@torch.no_grad()
def embedded_views(
    model: SimCLR, images: ImageStore, seed: int, epoch: int, *, chunk_size: int = 512
) -> tuple[Float[Tensor, "images dim"], Float[Tensor, "images dim"]]:
    """Embeddings of two augmented views of each image, from the model in ``eval()`` mode.

    Args:
        model: restored to its mode afterwards.
        images: on the model's device.
        seed: the seed of the run.
        epoch: views depend on both, and on nothing else.
        chunk_size: images per forward call.

    Returns:
        The first and the second views' embeddings, in float32.
    """
    views = []
    chunks = torch.arange(len(images), device=images.device).split(chunk_size)
    with in_eval_mode(model):
        for view in (1, 2):
            parts = []
            for step, rows in enumerate(chunks):
                position = derived_seed(seed, Purpose.ESTIMATES, epoch, view, step)
                drawn = model.augmentation(images.take(rows), seed=position)
                parts.append(model.projection_head(model.encode_views(drawn)).float())
            views.append(torch.cat(parts))
    return views[0], views[1]


def alpha_callback(settings: ImageSettings, images: ImageStore) -> AlphaCallback | None:
    """Make the callback that a run's settings ask for.

    Args:
        settings: the settings of the run.
        images: its training images, on its device.

    Returns:
        The callback, or None where alpha is fixed.

    Raises:
        ValueError: if alpha is to be measured with labels that are not there.
    """
    reading: Reading = "auc" if settings.alpha_reading == "auc" else "model"
    if settings.alpha_schedule == "ramp":
        end = settings.loss.resolved()["alpha"]
        return AlphaCallback(ScheduledAlpha(LinearRamp.over(settings.epochs, end)), every=1)
    if settings.alpha_schedule == "measured":
        part = labelled_part(images, per_class=settings.alpha_labels, seed=settings.seed)
        source = LabelledAlpha(part, reading, settings.seed)
        return AlphaCallback(source, every=settings.alpha_every)
    if settings.alpha_schedule == "label-free":
        free = LabelFreeAlpha(images, reading=reading, seed=settings.seed)
        return AlphaCallback(free, every=settings.alpha_every)
    return None
