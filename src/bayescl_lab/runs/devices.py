"""The device of a run."""

from __future__ import annotations

from typing import Literal

import torch

Device = Literal["auto", "cpu", "cuda"]
"""Names of devices; "auto" is a GPU if there is one."""


def check_device(device: Device) -> None:
    """Refuse a GPU if there is none.

    Raises:
        ValueError: if torch finds no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu if torch finds no GPU, got 'cuda'")


def chosen_device(device: Device, number: int | None = None) -> torch.device:
    """The device on this machine; with several GPUs, the one with the given number."""
    if device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda") if number is None else torch.device("cuda", number)
