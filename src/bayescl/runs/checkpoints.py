"""Checkpoints that are whole or absent, and that are read without unpickling code."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from bayescl._files import open_atomically


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write each checkpoint beside its place and move it there once it is complete.

    Lightning's own writer goes through the system's temporary folder, from where a move to
    another file system is a copy that can stop halfway.
    """

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: Any | None = None,
    ) -> None:
        """Save a checkpoint as a whole or not at all.

        Raises:
            OSError: if it cannot be written, on a full disk for one; the one before is kept.
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
                "the one before is kept, and --resume goes on from there"
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


def read_checkpoint(path: Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a checkpoint's tensors and plain values; whatever else it holds is refused.

    Raises:
        ValueError: if there is no such file, or it cannot be read.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        checkpoint = torch.load(path, map_location=map_location, weights_only=True)
    except (RuntimeError, EOFError, OSError, pickle.UnpicklingError, zipfile.BadZipFile):
        checkpoint = None
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        # what torch's reader may also raise on bytes that were never a checkpoint
        checkpoint = None
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise ValueError(f"the checkpoint {path} is damaged")
    return checkpoint
