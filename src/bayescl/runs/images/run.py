"""One run on images: train, resume, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.loggers import Logger
from torch import nn

from bayescl.runs.checkpoints import read_checkpoint
from bayescl.runs.folder import RunFolder
from bayescl.runs.images.alpha import alpha_callback
from bayescl.runs.images.model import build_model
from bayescl.runs.images.settings import ImageSettings
from bayescl.runs.loop import Progress, Pulse, fit_in_folder
from bayescl.runs.losses import LOSSES
from bayescl.runs.processes import process_rank
from bayescl.runs.provenance import provenance
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import ImageParts, load_images
from bayescl.vision.probes import knn_score, run_probes

KIND = "train images"
"""The kind of run: the command that makes it."""


class ImageRun:
    """A run on images, ready to train: its images, its model and the order of its batches.

    Everything that could be wrong with the input is found here, before a folder exists.

    Args:
        settings: the settings of the run.
        encoder: a network of the caller's own, in place of the one that the settings name.

    Attributes:
        settings: the settings of the run.
        parts: the images, on the run's device.
        model: the module that trains.
        alpha: the callback that changes the loss's alpha; None where that is fixed.

    Raises:
        ValueError: if the data cannot be used with these settings.
    """

    def __init__(self, settings: ImageSettings, encoder: nn.Module | None = None) -> None:
        self.settings = settings
        self.rank, local_rank = process_rank(settings.devices)
        self.device = settings.torch_device(local_rank)
        self.parts: ImageParts = load_images(
            settings.data, evaluate_on=settings.evaluate_on, **settings.choice_of_images()
        )
        loss = LOSSES[settings.loss.loss]
        if loss.needs_labels:
            self.parts.train.require_labels(f"the {loss.title} loss")
        if settings.knn_every:
            self.parts.labelled()  # refuses images without labels
        order = EpochOrder(
            len(self.parts.train),
            settings.batch_size,
            settings.seed,
            rank=self.rank,
            num_ranks=settings.devices * settings.num_nodes,
        )
        self.model = build_model(
            settings, self.parts.train, steps_per_epoch=len(order), encoder=encoder
        )
        self.parts = self.parts.to(self.device)
        self.batches = StoreBatches(self.parts.train, order)
        self.alpha = alpha_callback(settings, self.parts.train)

    def load(self, checkpoint: Path) -> int:
        """Take the weights of a checkpoint and return how many whole epochs they saw.

        Raises:
            ValueError: if it is missing, damaged or of another model.
        """
        content = read_checkpoint(checkpoint)
        try:
            self.model.load_state_dict(content["state_dict"])
        except (RuntimeError, KeyError, ValueError, TypeError):
            raise ValueError(
                f"the checkpoint {checkpoint} is of another model than {self.settings.encoder} "
                "with these settings"
            ) from None
        return int(content.get("global_step", 0)) // len(self.batches)

    def images(self) -> dict[str, int]:
        """How many images there are to train on and to judge by."""
        counts = {"train": len(self.parts.train)}
        if self.parts.evaluation is not None:
            counts[self.settings.evaluate_on] = len(self.parts.evaluation)
        return counts

    def probe(self) -> dict[str, float]:
        """Judge the encoder as it is now."""
        self.model.to(self.device)
        return run_probes(self.model, self.parts, linear_protocol=self.settings.linear_protocol)

    def judge(
        self, trainer: pl.Trainer, rows: Sequence[Mapping[str, float]]
    ) -> Mapping[str, float]:
        """Alpha where it changes, and every few epochs the k-NN score, for ``metrics.csv``."""
        del rows
        columns = {} if self.alpha is None else dict(self.alpha.column(trainer))
        every = self.settings.knn_every
        if every and (trainer.current_epoch + 1) % every == 0:
            columns["knn"] = knn_score(self.model, self.parts)
        return columns


def train_images(
    settings: ImageSettings,
    out: Path,
    *,
    encoder: nn.Module | None = None,
    resume: bool = False,
    checkpoint_every: int = 1,
    checkpoint_every_steps: int | None = None,
    progress: Progress | None = None,
    pulse: Pulse | None = None,
    loggers: Sequence[Logger] = (),
) -> dict[str, Any]:
    """Train on images, judge the encoder by every probe and write both into a run folder.

    A resumed run ends with the very weights of an unbroken one; on a GPU, up to the order in
    which its kernels add. On several devices each has a process of its own that calls this; all
    but the first return an empty result.

    Args:
        settings: the settings of the run.
        out: the run folder.
        encoder: a network of the caller's own, in place of the one that the settings name; a
            resumed run must be given it again.
        resume: go on with the run in ``out``, from its last checkpoint or, before the first,
            from the start. A finished run is left as it is. Else ``out`` must not exist or be
            empty.
        checkpoint_every: epochs between checkpoints.
        checkpoint_every_steps: steps between checkpoints within an epoch; none unless given.
        progress: told of every finished epoch.
        pulse: told how an epoch gets on.
        loggers: Lightning's, given every row of ``metrics.csv``.

    Returns:
        What ``result.json`` holds: settings, probes, seconds per epoch, and provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is no place for
            the run, or holds another run or a damaged checkpoint.
        OSError: if the disk is full; the checkpoint before is kept.
    """
    origin = provenance()  # of the code that trains, whatever the checkout holds at the end
    is_first = process_rank(settings.devices).rank == 0
    if resume:
        folder = RunFolder.open(out, KIND)
        if ImageSettings.from_config(folder.config()).as_config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        run = ImageRun(settings, encoder)
        if folder.checkpoint.is_file():
            run.load(folder.checkpoint)
    else:
        run = ImageRun(settings, encoder)
        # The other processes of a run write nothing, and may come before or after the first.
        folder = RunFolder(out, KIND)
        if is_first:
            folder = RunFolder.create(out, KIND, settings.as_config())

    journal = fit_in_folder(
        run.model,
        run.batches,
        folder,
        epochs=settings.epochs,
        device=run.device,
        devices=settings.devices,
        num_nodes=settings.num_nodes,
        precision=settings.precision,
        checkpoint_every=checkpoint_every,
        checkpoint_every_steps=checkpoint_every_steps,
        progress=progress,
        pulse=pulse,
        judge=run.judge,
        throughput=("images_per_second", settings.batch_size),
        loggers=loggers,
        callbacks=[] if run.alpha is None else [run.alpha],
    )
    if not is_first:
        return {}
    result = {
        "settings": settings.as_config(),
        "seed": settings.seed,
        "epochs": settings.epochs,
        "images": run.images(),
        "remarks": list(run.parts.remarks),
        "seconds_per_epoch": journal.seconds_per_epoch(),
        **journal.medians("images_per_second"),
        "loss": journal.rows[-1]["loss"],
        "probes": run.probe() if run.parts.has_labels else {},
        **origin,
    }
    folder.write_result(result)
    return result


def evaluate_images(path: Path, *, encoder: nn.Module | None = None) -> dict[str, Any]:
    """Judge the last checkpoint of a run, finished or not, and write ``evaluation.json``.

    Args:
        path: the run folder.
        encoder: the network that the run was given, if it was.

    Returns:
        What ``evaluation.json`` holds: probes, the epochs the weights saw, and provenance.

    Raises:
        ValueError: if the folder holds no run on images, no usable checkpoint yet,
            or its images have no labels.
    """
    folder = RunFolder.open(path, KIND)
    settings = ImageSettings.from_config(folder.config())
    if not folder.checkpoint.is_file():
        raise ValueError(f"{path} has no checkpoint yet")
    run = ImageRun(settings, encoder)
    epochs = run.load(folder.checkpoint)
    evaluation = {
        "epochs": epochs,
        "of_epochs": settings.epochs,
        "evaluated_on": settings.evaluate_on,
        "probes": run.probe(),
        "settings": settings.as_config(),
        **provenance(),
    }
    folder.write_result(evaluation, name="evaluation.json")
    return evaluation
