"""Randomness that depends on a run's position, not on its earlier draws.

Every draw comes from a seed derived from (run seed, purpose, epoch, step). A resumed run has
the same draws as an uninterrupted run, without generator state in the checkpoint. Two losses
compared with the same seed see the same batches and views.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

import numpy as np
import torch


class Purpose(IntEnum):
    """Purpose of a derived seed. Different purposes give different random numbers."""

    WEIGHTS = 0
    ORDER = 1
    VIEWS = 2
    CANDIDATES = 3
    ESTIMATES = 4
    LABELS = 5


def derived_seed(seed: int, purpose: Purpose, *position: int) -> int:
    """Derive the seed of one draw of a run.

    Args:
        seed: Seed of the run, at least 0.
        purpose: Purpose of the draw.
        position: Position in the run, for example epoch, step and view. Each is at least 0.

    Returns:
        A 63-bit seed. Similar arguments give unrelated seeds.

    Example:
        >>> derived_seed(0, Purpose.VIEWS, 3, 1) == derived_seed(0, Purpose.VIEWS, 3, 1)
        True
        >>> derived_seed(0, Purpose.VIEWS, 3, 1) == derived_seed(0, Purpose.VIEWS, 1, 3)
        False
    """
    sequence = np.random.SeedSequence([seed, int(purpose), *position])
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Use ``seed`` inside the block, and restore the state of torch's generator at the end."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
