"""Checkpoints read without unpickling code, and without Lightning."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch


def read_checkpoint(path: Path, map_location: Any = "cpu") -> dict[str, Any]:
    """Read a checkpoint's tensors and plain values; other content is refused.

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
