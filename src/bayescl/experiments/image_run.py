"""One run on images: train, resume, judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayescl.experiments.checkpoints import read_checkpoint
from bayescl.experiments.image_model import build_model
from bayescl.experiments.image_settings import ImageSettings
from bayescl.experiments.provenance import provenance
from bayescl.experiments.run_folder import RunFolder
from bayescl.experiments.training_loop import Progress, fit_in_folder
from bayescl.vision.batches import EpochOrder, StoreBatches
from bayescl.vision.datasets import ImageParts, load_images
from bayescl.vision.probes import run_probes

KIND = "train images"
"""The kind of run: the command that makes it."""


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
        self.parts: ImageParts = load_images(
            settings.data, evaluate_on=settings.evaluate_on, **settings.choice_of_images()
        )
        order = EpochOrder(len(self.parts.train), settings.batch_size, settings.seed)
        self.model = build_model(settings, self.parts.train, steps_per_epoch=len(order))
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
        if ImageSettings.from_config(folder.config()).as_config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        run = ImageRun(settings)
        if folder.checkpoint.is_file():
            run.load(folder.checkpoint)
    else:
        run = ImageRun(settings)
        folder = RunFolder.create(out, KIND, settings.as_config())

    journal = fit_in_folder(
        run.model,
        run.batches,
        folder,
        epochs=settings.epochs,
        device=settings.torch_device(),
        checkpoint_every=checkpoint_every,
        progress=progress,
    )
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
