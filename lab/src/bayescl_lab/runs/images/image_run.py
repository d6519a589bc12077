"""One run on images: train, resume, evaluate."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bayescl_lab._arrays import read_array
from bayescl_lab._fields import check_choice
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab._types import Config, Values
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.datasets import known_data_sets, load_images
from bayescl_lab.images.folder import caution
from bayescl_lab.items.batches import EpochOrder, StoreBatches
from bayescl_lab.items.parts import Parts, announce
from bayescl_lab.items.probes import PROBES, few_label_draws, run_probes
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.items.store import UNLABELED, ItemStore
from bayescl_lab.runs.captured import CapturedStep
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_record import ImageRecord
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.loop import Journal
from bayescl_lab.runs.losses import LOSSES
from bayescl_lab.runs.result import Result, Row, Score
from bayescl_lab.runs.run import Kind, Rows, TrainedRun, write_evaluation
from bayescl_lab.runs.weights import part_of_state, read_weights

_logger = logging.getLogger(__name__)

SUSPICIOUS, FEW_CLASSES = 0.99, 10
"""Accuracy of every probe above which a few class folders may be sources instead of classes."""


class ImageRun(TrainedRun[ImageSettings]):
    """A run on images with its images, model and batches.

    Args:
        settings: Settings of the run.
        encoder: Custom network that replaces the encoder in the settings. Default: none.
        data: Location of the images. Default: the location in the settings.
        record: Record of images in the run's folder, which the images must match.
        preparation: Preparation of other images, from the record of the run.
        split: Whether to split other images into parts.
    """

    kind = Kind.IMAGES
    settings_type = ImageSettings
    model: SimCLR

    def __init__(
        self,
        settings: ImageSettings,
        encoder: nn.Module | None = None,
        *,
        data: str | None = None,
        record: ImageRecord | None = None,
        preparation: Values | None = None,
        split: bool = True,
    ) -> None:
        super().__init__(settings)
        self.data = settings.data if data is None else data
        choice = settings.choice_of_images()
        if preparation is not None:
            choice |= _choice_of_other_images(self.data, preparation, split=split)
        parts = load_images(self.data, **choice)
        if record is not None:
            record.refuse_changes(ImageRecord.of(self.data, parts, {}))
        if preparation is not None and parts.train.item_shape != (*preparation["image_shape"],):
            raise ValueError(
                f"{self.data}: images must have shape {preparation['image_shape']} as in training, "
                f"got {list(parts.train.item_shape)}"
            )
        self.parts: Parts = parts.to(self.device)
        self.remarks = [*parts.remarks]
        steps = max(1, len(parts.train) // settings.batch_size)
        self.model = build_model(settings, self.parts.train, steps_per_epoch=steps, encoder=encoder)

    @cached_property
    def known(self) -> dict[str, Tensor]:
        """Metadata of each training image, by the names of the loss's arguments."""
        settings, train = self.settings, self.parts.train
        loss = LOSSES[settings.loss.loss]
        unknown = int((train.labels == UNLABELED).sum())
        if loss.needs_labels and unknown:
            raise ValueError(
                f"the {loss.title} loss needs the class of every image, but "
                f"{unknown} of {len(train)} images of {train.name} have none"
            )
        known = _known_labels(self.parts, settings)
        if settings.domains:
            if train.domains is None:
                raise ValueError(
                    f"{self.data} has no domains: give a column of a table (--domain-column), "
                    "folders (--folders domains), or an array domains in an .npz file"
                )
            known["domains"] = train.domains
        if settings.teacher not in ("items", "none") and settings.positive_share < 1:
            known["teacher"] = _teacher(Path(str(settings.teacher)), train)
        return known

    @cached_property
    def batches(self) -> StoreBatches:
        """Batches of the training images."""
        train, settings, known = self.parts.train, self.settings, self.known
        place = {"rank": self.rank, "num_ranks": settings.num_processes}
        order = EpochOrder(len(train), settings.batch_size, settings.seed, **place)
        return StoreBatches(train, order, known)

    def part(self, name: str) -> ItemStore:
        """Return the images of a part, "train" or "evaluation"; raise if there are none."""
        check_choice("part", name, ("train", "evaluation"))
        store = self.parts.train if name == "train" else self.parts.evaluation
        if store is None:
            raise ValueError(f"{self.data} has no evaluation part, only train")
        return store

    @classmethod
    def restore(cls, folder: RunFolder, data: str | None = None) -> Config:
        """Return location and record of the run's images, or of other images to evaluate on."""
        if data is not None:
            return {"data": data, "preparation": ImageRecord.read(folder).preparation}
        if not folder.has_record:
            return {}
        record = ImageRecord.read(folder)
        if record.data not in known_data_sets() and not Path(record.data).exists():
            missing = f"the images of the run are missing from {record.data}"
            raise ValueError(f"{missing}: give their location with --data")
        return {"data": record.data, "record": record}

    def write_record(self, folder: RunFolder) -> None:
        """Record the images and their location in the run's folder."""
        normalization: Any = self.model.normalization
        preparation = {
            "image_shape": list(self.parts.train.item_shape),
            "divide_by": 255,
            "mean": normalization.mean.flatten().tolist(),
            "deviation": normalization.deviation.flatten().tolist(),
            "values": self.parts.train.values,
        }
        record = ImageRecord.of(self.data, self.parts, preparation)
        record.write(folder)
        self.remarks += record.write_copies(folder)
        for remark in self.remarks:
            announce(remark)

    def start_from(self, path: Path) -> None:
        """Load the encoder and projection head of another run with the same networks."""
        state = read_weights(RunFolder.open(path, Kind.IMAGES))
        try:
            for name in ("encoder", "projection_head"):
                self.model.get_submodule(name).load_state_dict(part_of_state(state, name))
        except RuntimeError:
            raise ValueError(
                f"init: the encoder or projection head of {path} does not match these settings"
            ) from None

    def fit(self, folder: RunFolder, **options: Any) -> Journal:
        """Train, with the step as one CUDA graph if the settings ask for it."""
        if self.settings.captured:
            self.model.captured = self._captured_step()
        try:
            return super().fit(folder, precision=self.settings.precision, **options)
        finally:
            self.model.captured = None  # the model is moved off its GPU

    def _captured_step(self) -> CapturedStep | None:
        """Return the step as a CUDA graph; ``None`` with a warning if it is not possible."""
        settings, augmentation = self.settings, self.model.augmentation
        is_one_gpu = self.device.type == "cuda" and settings.num_processes == 1
        is_own = ":" in settings.encoder
        if is_one_gpu and not is_own and isinstance(augmentation, SimCLRAugmentation):
            return CapturedStep(self.model)
        _logger.warning(
            "captured has no effect: it needs one GPU, the simclr augmentation, and a network that "
            "is not custom"
        )
        return None

    def evaluate(self) -> Row:
        """Evaluate the current encoder with all probes."""
        self.model.to(self.device)
        found = run_probes(self.model, self.parts, linear_protocol=self.settings.linear_protocol)
        probes = [name for name in found if not name.endswith("_spread")]
        return Row({name: Score(found[name], found.get(f"{name}_spread")) for name in probes})

    def result(self, row: Row, remarks: Sequence[str] = (), part: str | None = None) -> Result:
        """Return the result with the row of this run."""
        settings, part = self.settings, part or self.settings.evaluate_on
        evaluated = {part: len(self.parts.labeled()[1])} if self.parts.has_labels else {}
        return Result(
            settings.data,
            part,
            {settings.method: row},
            1,
            encoder=settings.encoder,
            sizes={"train": len(self.parts.train), **evaluated},
            settings=settings.as_config(),
            remarks=remarks,
        )

    def results(self, folder: RunFolder, rows: Rows) -> Result:
        """Return all probes and remarks."""
        del folder, rows
        labels = self.known.get("labels")
        row, remarks = self.evaluate() if self.parts.has_labels else Row({}), [*self.remarks]
        if labels is not None:
            known = int((labels != UNLABELED).sum())
            remarks.append(f"the loss was given the labels of {known} of {len(labels)} images")
        return self.result(row, [*remarks, *self._suspicion(row, remarks)])

    def _suspicion(self, row: Row, remarks: Sequence[str]) -> Iterator[str]:
        """Yield a remark if a few class folders are classified almost perfectly."""
        scores = [row.scores[name].mean for name in PROBES if name in row.scores]
        of_folders = Path(self.data).is_dir() and self.settings.table is None
        names = self.parts.train.class_names
        is_easy = scores and min(scores) >= SUSPICIOUS and len(names) <= FEW_CLASSES
        line = caution(names)
        if of_folders and is_easy and not any("are read as classes" in text for text in remarks):
            yield f"every probe is right for at least {SUSPICIOUS:.0%} of the images: {line}"


def _choice_of_other_images(data: str, preparation: Values, *, split: bool) -> Config:
    """Return how to load other images with the preparation of the run's images."""
    _, height, width = preparation["image_shape"]
    choice: Config = {"table": None, "image_size": None}
    if Path(data).is_dir():
        choice["image_size"] = height if height == width else None
        choice["values"] = tuple(preparation["values"] or ()) or None
    if split:
        return choice
    return {
        **choice,
        **dict.fromkeys(("classes", "max_train_images")),
        "evaluate_on": "test",
        "labels_per_class": sys.maxsize,  # keep all in the first part
    }


def _known_labels(parts: Parts, settings: ImageSettings) -> dict[str, Int[Tensor, " images"]]:
    """Return the labels for the loss, -1 for the other images."""
    per_class = settings.labels_per_class
    if per_class is None or LOSSES[settings.loss.loss].needs_labels:
        return {}
    train = parts.train
    train.labeled()  # raises if there are no labels
    classes = len(train.class_names)
    for label, name in enumerate(train.class_names):
        counts = [
            0 if store is None else int((store.labels == label).sum())
            for store in (train, parts.evaluation)
        ]
        if counts[0] < per_class:
            raise ValueError(
                "labels_per_class must be at most the number of labeled training images of each "
                f"class, got {per_class}: class {name} has {counts[0]}, and {counts[1]} more in "
                f"the {settings.evaluate_on} part"
            )
    (rows,) = few_label_draws(
        train.labels,
        num_classes=classes,
        labels_per_class=per_class,
        draws=1,
        seed=derived_seed(settings.seed, Purpose.LABELS),
    )
    known = torch.full_like(train.labels, UNLABELED)
    known[rows] = train.labels[rows]
    return {"labels": known}


def _teacher(path: Path, train: ItemStore) -> Float[Tensor, "images dim"]:
    """Read embeddings of the training images from a file."""
    if path.suffix != ".npy":
        raise ValueError(f"teacher must be an .npy file, got {path}")
    embeddings = read_array(path, dimensions=[2])
    if len(embeddings) != len(train):
        raise ValueError(
            f"teacher must have one embedding per training image, "
            f"got {len(embeddings)} in {path} for {len(train)} images"
        )
    values = torch.from_numpy(np.asarray(embeddings, np.float32).copy())
    if not values.isfinite().all():
        raise ValueError(f"teacher must be finite, got NaN or infinite values in {path}")
    return values


def train_images(
    settings: ImageSettings,
    out: Path,
    *,
    encoder: nn.Module | None = None,
    resume: bool = False,
    **fit_options: Any,
) -> Result:
    """Train on images, evaluate the encoder with all probes, and write both to a run folder.

    A resumed run ends with exactly the weights of an uninterrupted run; on a GPU, up to
    floating-point summation order. With several devices, one process per device calls this
    function. All processes except the first return an empty result.

    Args:
        settings: Settings of the run.
        out: Run folder.
        encoder: Custom network that replaces the encoder in the settings. Pass it again to resume
            the run. Default: none.
        resume: Whether to resume the run in ``out`` from its last checkpoint, or from the start if
            there is none. A finished run is not changed. ``settings.data`` may be a new location of
            the same images. If False, ``out`` must be empty or must not exist.
        **fit_options: ``progress`` and ``checkpoint_every``; see
            :class:`~bayescl_lab.runs.loop.Journal`.

    Returns:
        The result, as in ``result.json``.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is not writable or
            holds another run or a damaged checkpoint.
    """
    given: Config = {"encoder": encoder}
    if resume:
        folder = RunFolder.open(out, Kind.IMAGES)
        before = str(folder.config().get("data", settings.data))
        if settings.data != before:
            given |= {"data": settings.data, "record": ImageRecord.read(folder)}
            settings = replace(settings, data=before)
    return ImageRun.train(settings, out, fit_options, resume=resume, **given)


def evaluate_images(
    path: Path, *, encoder: nn.Module | None = None, data: str | None = None
) -> Result:
    """Evaluate the last checkpoint of a run, finished or not, and write ``evaluation.json``.

    Args:
        path: Run folder.
        encoder: Custom network of the run, if it has one.
        data: Other images to evaluate on. Default: the images of the run.

    Returns:
        The result, as in ``evaluation.json``.
    """
    folder, run, epochs = ImageRun.reopen(path, data=data, encoder=encoder)
    row = replace(run.evaluate(), epochs=epochs)
    return write_evaluation(folder, run.result(row, part=data))
