"""A random generator for every draw, independent of other draws."""

from __future__ import annotations

import zlib

import numpy as np
import torch

from bayescl.checks import check_count


def generator(seed: int, *path: object) -> torch.Generator:
    """The generator of the draw named by ``path``.

    Each draw has its own stream, so an experiment gives the same numbers whether it runs alone
    or among others, and adding a value to a sweep leaves the others as they were.

    Args:
        seed: seed of the whole run, at least 0.
        path: identifies the draw by printed values, such as the experiment's name, the value and
            the repetition.

    Raises:
        ValueError: if ``seed`` is not a whole number of at least 0.

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
