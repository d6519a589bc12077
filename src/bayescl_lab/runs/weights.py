"""Files of weights: checkpoints, and ``weights.safetensors`` of finished runs.

Reading does not import Lightning, and does not execute pickled code.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from bayescl_lab.runs.folder import RunFolder

_DAMAGED = (
    *(RuntimeError, EOFError, OSError, SafetensorError, pickle.UnpicklingError),
    # further exceptions of torch's reader on files that are not checkpoints
    *(ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError),
    *(zipfile.BadZipFile, struct.error),
)


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint's tensors and plain values to the CPU; raise on other content."""
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except _DAMAGED:
        checkpoint = None
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise ValueError(f"the checkpoint {path} is damaged")
    return checkpoint


def as_safetensors(state: Mapping[str, Any]) -> bytes:
    """Convert the tensors of a module's state to safetensors, without the loss."""
    tensors = {
        name: value.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, value in state.items()
        if isinstance(value, Tensor) and not name.startswith("loss.")
    }
    return bytes(save(tensors, metadata={"format": "pt"}))


def read_weights(folder: RunFolder) -> dict[str, Any]:
    """Read the weights of a finished run from their file, else from the checkpoint."""
    if folder.is_finished and folder.weights_file.is_file():
        try:
            return dict(load_file(folder.weights_file))
        except _DAMAGED:
            raise ValueError(f"{folder.weights_file} is damaged") from None
    state: dict[str, Any] = read_checkpoint(folder.kept_checkpoint())["state_dict"]
    return state


def part_of_state(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the part of a state for a submodule."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
