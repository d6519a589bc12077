"""What a run computes on."""

from __future__ import annotations

from typing import Literal

import torch

Device = Literal["auto", "cpu", "cuda"]
"""How a device is asked for; "auto" is a GPU where there is one."""


def check_device(device: Device) -> None:
    """Refuse a GPU where there is none.

    Raises:
        ValueError: if torch finds no GPU.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu where torch finds no GPU, got 'cuda'")


def chosen_device(device: Device, number: int | None = None) -> torch.device:
    """The device on this machine; of several GPUs the one of a number."""
    if device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda") if number is None else torch.device("cuda", number)
