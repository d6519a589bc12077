"""Files of weights.

Reading does not import Lightning, and does not execute pickled code.
"""

from __future__ import annotations

import io
import pickle

import torch

from bayescl_lab._types import Config, Values
from bayescl_lab.runs.digest import has_digest
from bayescl_lab.runs.folder import RunFolder


def read_checkpoint(folder: RunFolder) -> Config:
    """Read the tensors and plain values of a run's last checkpoint to the CPU.

    Raises:
        ValueError: if there is no checkpoint yet, or it is damaged or of another run.
    """
    path = folder.kept_checkpoint()
    content = path.read_bytes()
    if not has_digest(content, folder.identity):
        raise ValueError(f"the checkpoint {path} is damaged or of another run")
    try:
        checkpoint: Config = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ValueError(f"the checkpoint {path} holds more than weights") from None
    return checkpoint


def part_of_state(state: Values, name: str) -> Config:
    """Return the part of a state for a submodule."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in state.items() if key.startswith(start)}
