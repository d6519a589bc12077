"""The number of processes that train together, and this one's rank, from the environment."""

from __future__ import annotations

import os
from typing import NamedTuple

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count


@dataclass(frozen=True)
class Processes:
    """The devices that train one model together, with one process each.

    Attributes:
        devices: devices per node, with one process each.
        num_nodes: number of nodes; start the command on each of them with torchrun.

    Raises:
        ValueError: if a number is below 1.
    """

    devices: Count = 1
    num_nodes: Count = 1

    @property
    def count(self) -> int:
        """Number of processes on all nodes."""
        return self.devices * self.num_nodes

    def this(self) -> ProcessRank:
        """The ranks of this process.

        Raises:
            ValueError: if torchrun started a different number of processes.
        """
        started = os.environ.get("WORLD_SIZE", "1")
        if "TORCHELASTIC_RUN_ID" in os.environ and int(started) != self.count:
            raise ValueError(
                f"devices times num_nodes must be {started}, the number of processes that torchrun "
                f"started, got {self.devices} times {self.num_nodes}"
            )
        return ProcessRank(0, 0) if self.count == 1 else process_rank(self.devices)


class ProcessRank(NamedTuple):
    """The ranks of this process among those that train together.

    Attributes:
        rank: rank among all processes; 0 writes the run folder.
        local_rank: rank on this node, which is also the number of its GPU.
    """

    rank: int
    local_rank: int


def process_rank(devices: int = 1) -> ProcessRank:
    """The rank of this process; 0 if there is only one.

    Args:
        devices: processes per node.
    """
    if devices * int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ProcessRank(0, 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    node = int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return ProcessRank(int(os.environ.get("RANK", str(node * devices + local))), local)
