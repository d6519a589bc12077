"""A random generator for every draw, independent of which other draws are made."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from bayescl._checks import check_count


def generator(seed: int, *path: object) -> torch.Generator:
    """The generator of the draw that ``path`` names.

    Each draw has its own stream, so an experiment gives the same numbers whether it runs alone
    or among others, and adding a value to a sweep leaves the others as they were.

    Args:
        seed: seed of the whole run, at least 0.
        path: what is drawn, such as the experiment's name, the value and the repetition; told
            apart by how they print.

    Raises:
        ValueError: if ``seed`` is negative or no whole number.

    Example:
        >>> torch.rand(2, generator=generator(0, "mse", 1)).equal(
        ...     torch.rand(2, generator=generator(0, "mse", 1))
        ... )
        True
    """
    check_count("seed", seed, 0)
    words = [zlib.crc32(str(part).encode()) for part in path]
    state = np.random.SeedSequence(seed, spawn_key=tuple(words)).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]) >> 1)
