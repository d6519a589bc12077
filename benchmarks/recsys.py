"""Random interactions for benchmarks of recommenders."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayescl_lab.ranking.interactions import Interactions

GOWALLA = (29_858, 40_981, 810_128)  # users, items and pairs in training


def random_pairs(users: int, items: int, pairs: int) -> NDArray[np.int64]:
    """Rows and columns with the long tails of real data: shares of pairs fall as powers."""
    generator = np.random.default_rng(0)
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < pairs:
        rows = (users * generator.random(2 * pairs) ** 1.8).astype(np.int64)
        columns = (items * generator.random(2 * pairs) ** 2.5).astype(np.int64)
        keys = np.unique(np.concatenate([keys, rows * items + columns]))
    return np.stack(np.divmod(generator.permutation(keys)[:pairs], items))


def random_interactions(users: int, items: int, pairs: int) -> Interactions:
    """The same as interactions."""
    drawn = random_pairs(users, items, pairs)
    return Interactions.from_pairs(*drawn, user_ids=users, item_ids=items)
