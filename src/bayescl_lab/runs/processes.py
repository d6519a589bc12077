"""The devices of a run, and the processes that train on them together."""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

import torch
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count

Device = Literal["auto", "cpu", "cuda"]
"""Names of devices; "auto" is a GPU if there is one."""


@dataclass(frozen=True)
class Processes:
    """The devices that train one model together, with one process each.

    Attributes:
        devices: devices per node, with one process each.
        num_nodes: number of nodes; start the command on each of them with torchrun.
    """

    devices: Count = 1
    num_nodes: Count = 1

    @property
    def count(self) -> int:
        """Number of processes on all nodes."""
        return self.devices * self.num_nodes

    def this(self) -> ProcessRank:
        """The ranks of this process; refuses another number of processes than torchrun started."""
        started = os.environ.get("WORLD_SIZE", "1")
        if "TORCHELASTIC_RUN_ID" in os.environ and int(started) != self.count:
            raise ValueError(
                f"devices times num_nodes must be {started}, the number of processes that torchrun "
                f"started, got {self.devices} times {self.num_nodes}"
            )
        return ProcessRank(0, 0) if self.count == 1 else process_rank(self.devices)


class ProcessRank(NamedTuple):
    """The ranks of a process: among all, where 0 writes the run folder, and on its node."""

    rank: int
    local_rank: int


def process_rank(devices: int = 1) -> ProcessRank:
    """The ranks of this process, if so many train on each node."""
    if devices * int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ProcessRank(0, 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    node = int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return ProcessRank(int(os.environ.get("RANK", str(node * devices + local))), local)


def check_device(device: Device) -> None:
    """Refuse a GPU if torch finds none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device must be auto or cpu if torch finds no GPU, got 'cuda'")


def chosen_device(device: Device, number: int | None = None) -> torch.device:
    """The device on this machine; with several GPUs, the one with the given number."""
    if device == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda") if number is None else torch.device("cuda", number)
