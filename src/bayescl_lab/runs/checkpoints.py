"""Checkpoints that are written completely or not at all, and read without unpickling code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from bayescl_lab._files import open_atomically
from bayescl_lab.runs.reading import read_checkpoint

__all__ = ["AtomicCheckpointIO", "read_checkpoint"]


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
        """Save a checkpoint completely or not at all.

        Raises:
            OSError: if it cannot be written, for example on a full disk; the previous one is kept.
        """
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
