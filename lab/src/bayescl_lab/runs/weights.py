"""Files of weights.

Reading does not import Lightning, and does not execute pickled code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from bayescl_lab.runs.folder import RunFolder


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint's tensors and plain values to the CPU; raise on other content."""
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception:  # any exception of torch's reader
        checkpoint = None
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise ValueError(f"the checkpoint {path} is damaged")
    return checkpoint


def read_weights(folder: RunFolder) -> dict[str, Any]:
    """Read the evaluated weights of a run."""
    state: dict[str, Any] = read_checkpoint(folder.kept_checkpoint())["state_dict"]
    return state


def part_of_state(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the part of a state for a submodule."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
