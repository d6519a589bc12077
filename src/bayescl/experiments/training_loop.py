"""The loop of every run: Lightning, with checkpoints and metrics in the run's folder."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Checkpoint

from bayescl.experiments.checkpoints import AtomicCheckpointIO
from bayescl.experiments.run_folder import RunFolder

Progress = Callable[[int, float], None]
"""Called after every epoch with the number of finished epochs and the mean loss."""

Judge = Callable[[pl.Trainer, Sequence[Mapping[str, float]]], Mapping[str, float]]
"""Called after every epoch with the trainer and the rows of earlier epochs; gives the row's further
columns, the same ones after every epoch. It may set ``trainer.should_stop``."""


def fit_in_folder(
    module: pl.LightningModule,
    batches: Iterable[Any],
    folder: RunFolder,
    *,
    epochs: int,
    device: torch.device,
    checkpoint_every: int = 1,
    progress: Progress | None = None,
    judge: Judge | None = None,
) -> Journal:
    """Train a module up to a number of epochs, from the folder's last checkpoint if there is one.

    Args:
        module: logs the mean ``loss`` of every epoch.
        batches: one pass is an epoch.
        folder: where ``metrics.csv`` and checkpoints go.
        epochs: of the whole run, those before a resume included.
        device: a CPU or one GPU.
        checkpoint_every: epochs between checkpoints.
        progress: told of every finished epoch.
        judge: gives further columns of ``metrics.csv``, and may end the run early; what it takes
            is not part of an epoch's seconds.

    Returns:
        The journal, with one row per epoch.

    Raises:
        ValueError: if the loss is no longer finite.
    """
    journal = Journal(folder, progress, judge)
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="gpu" if device.type == "cuda" else "cpu",
            devices=1,
            max_epochs=epochs,
            logger=False,
            # The journal's row of an epoch must be on disk before the checkpoint that skips it.
            callbacks=[journal, LastCheckpoint(folder, checkpoint_every)],
            plugins=[AtomicCheckpointIO()],
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder.path,
        )
        last = folder.checkpoint if folder.checkpoint.is_file() else None
        try:
            trainer.fit(module, batches, ckpt_path=last)
        except SystemExit as stop:
            # Lightning turns Ctrl-C into an exit of its own, with the status of a failure.
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
    return journal


class Journal(pl.Callback):
    """Keep ``metrics.csv``: one row per epoch, those of a broken epoch dropped on resume."""

    def __init__(
        self, folder: RunFolder, progress: Progress | None, judge: Judge | None = None
    ) -> None:
        self.folder = folder
        self.progress = progress
        self.judge = judge
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
        row = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 4)}
        self.rows.append({**row, **(self.judge(trainer, self.rows) if self.judge else {})})
        self.folder.write_metrics(self.rows)
        if self.progress is not None:
            self.progress(epoch, loss)

    def seconds_per_epoch(self) -> float:
        """The median time of an epoch: the first one warms up, and machines hiccup."""
        seconds = sorted(row["seconds"] for row in self.rows)
        return seconds[len(seconds) // 2]


class LastCheckpoint(Checkpoint):
    """Save every few epochs, and after the last one, whichever that turns out to be."""

    def __init__(self, folder: RunFolder, every: int) -> None:
        self.path = folder.checkpoint
        self.every = every

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if it is time."""
        del pl_module
        done = trainer.current_epoch + 1
        if done % self.every == 0 or done == trainer.max_epochs or trainer.should_stop:
            trainer.save_checkpoint(self.path)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's announcements, and warnings about what is as it should be."""
    logger = logging.getLogger("lightning.pytorch")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Lightning 2.6 with torch >= 2.12 asks isinstance(..., LeafSpec), which warns.
            warnings.filterwarnings("ignore", message=r".isinstance\(treespec, LeafSpec\)")
            yield
    finally:
        logger.setLevel(level)
