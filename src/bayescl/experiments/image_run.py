"""One run on images: train, resume, judge."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint

from bayescl.experiments.checkpoints import AtomicCheckpointIO, read_checkpoint
from bayescl.experiments.image_settings import ImageSettings
from bayescl.experiments.provenance import provenance
from bayescl.experiments.run_folder import RunFolder
from bayescl.vision.augmentation import AffineNoise, Normalization
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import ImageParts, load_images
from bayescl.vision.encoders import SmallConvEncoder
from bayescl.vision.heads import ProjectionHead
from bayescl.vision.probes import run_probes
from bayescl.vision.randomness import Purpose, derived_seed, seeded
from bayescl.vision.simclr import SimCLR

KIND = "train images"
"""The kind of run: the command that makes it."""

Progress = Callable[[int, float], None]
"""Called after every epoch with the number of finished epochs and the mean loss."""


class ImageRun:
    """A run on images, ready to train: its images, its model and the order of its batches.

    Everything that could be wrong with the input is found here, before a folder exists.

    Args:
        settings: the settings of the run.

    Attributes:
        settings: the settings of the run.
        parts: the images, on the run's device.
        model: the module that trains.

    Raises:
        ValueError: if the data cannot be used with these settings.
    """

    def __init__(self, settings: ImageSettings) -> None:
        self.settings = settings
        self.parts: ImageParts = load_images(settings.data, evaluate_on=settings.evaluate_on)
        order = EpochOrder(len(self.parts.train), settings.batch_size, settings.seed)
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            encoder = SmallConvEncoder(self.parts.train.image_shape[0], settings.width)
            head = ProjectionHead(encoder.feature_dim)
        self.model = SimCLR(
            encoder=encoder,
            projection_head=head,
            loss=settings.loss.build(),
            augmentation=AffineNoise(settings.strength),
            normalization=Normalization(self.parts.train.images),
            learning_rate=settings.lr,
            total_steps=settings.epochs * len(order),
            seed=settings.seed,
        )
        self.parts = self.parts.to(settings.torch_device())
        self.batches = StoreBatches(self.parts.train, order)

    def load(self, checkpoint: Path) -> int:
        """Take the weights of a checkpoint and return how many epochs they saw.

        Raises:
            ValueError: if it is missing, damaged or of another model.
        """
        content = read_checkpoint(checkpoint)
        try:
            self.model.load_state_dict(content["state_dict"])
        except (RuntimeError, KeyError, ValueError, TypeError):
            raise ValueError(f"the checkpoint {checkpoint} is of another model") from None
        return int(content.get("epoch", -1)) + 1

    def probe(self) -> dict[str, float]:
        """Judge the encoder as it is now."""
        self.model.to(self.settings.torch_device())
        return run_probes(self.model, self.parts)


def train_images(
    settings: ImageSettings,
    out: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train on images, judge the encoder by every probe and write both into a run folder.

    A resumed run ends with the very weights of an unbroken one; on a GPU, up to the order in
    which its kernels add.

    Args:
        settings: the settings of the run.
        out: the run folder.
        resume: go on with the run in ``out``, from its last checkpoint or, before the first,
            from the start. A finished run is left as it is. Else ``out`` must not exist or be
            empty.
        checkpoint_every: epochs between checkpoints.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds: settings, probes, seconds per epoch, and provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is no place for
            the run, or holds another run or a damaged checkpoint.
    """
    origin = provenance()  # of the code that trains, whatever the checkout holds at the end
    if resume:
        folder = RunFolder.open(out, KIND)
        if folder.config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        run = ImageRun(settings)
        if folder.checkpoint.is_file():
            run.load(folder.checkpoint)
    else:
        run = ImageRun(settings)
        folder = RunFolder.create(out, KIND, settings.as_config())

    journal = _Journal(folder, progress)
    checkpoints = ModelCheckpoint(
        dirpath=folder.checkpoint.parent,
        filename=folder.checkpoint.stem,
        every_n_epochs=checkpoint_every,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    with _quiet_lightning():
        trainer = pl.Trainer(
            accelerator="gpu" if settings.torch_device().type == "cuda" else "cpu",
            devices=1,
            max_epochs=settings.epochs,
            logger=False,
            # The journal's row of an epoch must be on disk before the checkpoint that skips it.
            callbacks=[journal, checkpoints],
            plugins=[AtomicCheckpointIO()],
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder.path,
        )
        last = folder.checkpoint if folder.checkpoint.is_file() else None
        try:
            trainer.fit(run.model, run.batches, ckpt_path=last)
        except SystemExit as stop:
            # Lightning turns Ctrl-C into an exit of its own, with the status of a failure.
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
    result = {
        "settings": settings.as_config(),
        "seed": settings.seed,
        "epochs": settings.epochs,
        "images": {"train": len(run.parts.train), settings.evaluate_on: len(run.parts.evaluation)},
        "seconds_per_epoch": journal.seconds_per_epoch(),
        "loss": journal.rows[-1]["loss"],
        "probes": run.probe(),
        **origin,
    }
    folder.write_result(result)
    return result


def evaluate_images(path: Path) -> dict[str, Any]:
    """Judge the last checkpoint of a run, finished or not, and write ``evaluation.json``.

    Args:
        path: the run folder.

    Returns:
        What ``evaluation.json`` holds: probes, the epochs the weights saw, and provenance.

    Raises:
        ValueError: if the folder holds no run on images, or no usable checkpoint yet.
    """
    folder = RunFolder.open(path, KIND)
    settings = ImageSettings.from_config(folder.config())
    if not folder.checkpoint.is_file():
        raise ValueError(f"{path} has no checkpoint yet")
    run = ImageRun(settings)
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


class _Journal(pl.Callback):
    """Keep ``metrics.csv``: one row per epoch, those of a broken epoch dropped on resume."""

    def __init__(self, folder: RunFolder, progress: Progress | None) -> None:
        self.folder = folder
        self.progress = progress
        self.rows = folder.read_metrics()
        self._started = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Drop rows of epochs that the checkpoint has not seen."""
        del pl_module
        self.rows = [row for row in self.rows if row["epoch"] <= trainer.current_epoch]

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        del trainer, pl_module
        self._started = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the row of the epoch."""
        del pl_module
        loss = float(trainer.callback_metrics["loss"])
        seconds = time.perf_counter() - self._started
        if loss != loss or loss in (float("inf"), float("-inf")):
            raise ValueError(
                f"the loss became {loss} in epoch {trainer.current_epoch + 1}: "
                "lower the learning rate"
            )
        epoch = trainer.current_epoch + 1
        self.rows.append({"epoch": epoch, "loss": loss, "seconds": round(seconds, 4)})
        self.folder.write_metrics(self.rows)
        if self.progress is not None:
            self.progress(epoch, loss)

    def seconds_per_epoch(self) -> float:
        """The median time of an epoch: the first one warms up, and machines hiccup."""
        seconds = sorted(row["seconds"] for row in self.rows)
        return seconds[len(seconds) // 2]


@contextmanager
def _quiet_lightning() -> Iterator[None]:
    """Hide Lightning's announcements, and warnings about what is as it should be."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Lightning 2.6 with torch >= 2.12 asks isinstance(..., LeafSpec), which warns.
            warnings.filterwarnings("ignore", message=r".isinstance\(treespec, LeafSpec\)")
            # A resumed run finds its own checkpoints there.
            warnings.filterwarnings("ignore", message="Checkpoint directory .* is not empty")
            yield
    finally:
        logger.setLevel(level)
