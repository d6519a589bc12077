"""Files of weights.

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
from safetensors.torch import load_file
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


def read_state(file: Path) -> dict[str, Tensor]:
    """Read a network's state from a safetensors or torch file, possibly under "state_dict".

    Raises:
        ValueError: if the file cannot be read without running code from it, or holds no state.
    """
    try:
        if file.suffix == ".safetensors":
            return dict(load_file(file))
        content = torch.load(file, map_location="cpu", weights_only=True)
    except _DAMAGED:
        raise ValueError(f"cannot read {file}: it is damaged, or holds more than tensors") from None
    state = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(state, dict) or not all(isinstance(it, Tensor) for it in state.values()):
        raise ValueError(f"{file} does not hold the state of a network")
    return state


def read_weights(folder: RunFolder) -> dict[str, Any]:
    """Read the evaluated weights of a run."""
    state: dict[str, Any] = read_checkpoint(folder.kept_checkpoint())["state_dict"]
    return state


def part_of_state(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the part of a state for a submodule."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
