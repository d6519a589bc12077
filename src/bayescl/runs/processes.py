"""The rank of this training process, from the launcher's environment."""

from __future__ import annotations

import os
from typing import NamedTuple


class ProcessRank(NamedTuple):
    """The ranks of this process among those that train together.

    Attributes:
        rank: among all of them; 0 writes the run folder.
        local_rank: among those of this node, and so the number of its GPU.
    """

    rank: int
    local_rank: int


def process_rank(devices: int = 1) -> ProcessRank:
    """The rank of this process; 0 if there is only one.

    Args:
        devices: processes on each node.
    """
    if devices * int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ProcessRank(0, 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    node = int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return ProcessRank(int(os.environ.get("RANK", str(node * devices + local))), local)
