"""What this process may use of the machine."""

from __future__ import annotations

import os


def usable_cores() -> int:
    """Processor cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
