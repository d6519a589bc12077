"""Checkpoints that are written completely or not at all, and when a run writes them.

Lightning's ``ModelCheckpoint`` writes in place and keeps the paths of its files in every
checkpoint. A run that is killed must find a complete checkpoint, and one that was resumed must end
with the same file as one that was not.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint

from bayescl_lab._files import open_atomically
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.journal import Journal
from bayescl_lab.runs.weights import read_checkpoint


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write each checkpoint to a temporary file and move it into place once it is complete.

    Lightning's own writer uses the system's temporary folder, from which a move to another file
    system is a copy that can stop halfway.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Save a checkpoint completely or not at all, for example on a full disk."""
        del storage_options  # of remote file systems
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open_atomically(target) as file:
                torch.save(checkpoint, file)
        except (OSError, RuntimeError) as error:
            # torch's writer hides what the file said behind an error of its own.
            reason = error.__context__ or error
            if not isinstance(reason, OSError):
                raise
            raise OSError(
                f"cannot write the checkpoint {target}: {reason.strerror or reason}; "
                "the previous one is kept, and --resume continues from there"
            ) from None

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any | None = None,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load tensors and plain values; see :func:`read_checkpoint`."""
        del weights_only  # it is always so
        return read_checkpoint(Path(path), map_location or "cpu")


class LastCheckpoint(Checkpoint):
    """Save every few epochs, after the last one and, if asked, every few steps within an epoch.

    The journal refuses losses that are not finite first.
    """

    def __init__(
        self, folder: RunFolder, every: int, every_steps: int | None, journal: Journal
    ) -> None:
        self.path = folder.checkpoint
        self.every = every
        self.every_steps = every_steps
        self.journal = journal

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Save within an epoch, but not at its end, where the row must be on disk first."""
        if self.every_steps is None or trainer.is_last_batch:
            return
        if trainer.global_step % self.every_steps == 0:
            self.journal.check_finite(trainer.current_epoch + 1)
            trainer.save_checkpoint(self.path)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Save if it is due."""
        del pl_module
        done = trainer.current_epoch + 1
        if done % self.every == 0 or done == trainer.max_epochs or trainer.should_stop:
            trainer.save_checkpoint(self.path)
