"""Processors and memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux gives the memory limit of a container."""


def usable_cores() -> int:
    """Return the number of processor cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def usable_memory() -> float:
    """Return the bytes of memory of the machine, or the limit of the container.

    The result is infinite if the limit is unknown.
    """
    limits = [float("inf")]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        limits.append(float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")))
    for file in _LIMITS:
        try:
            limits.append(float(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits)
