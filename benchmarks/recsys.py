"""What the benchmarks of recommenders share: random interactions, and columns of times."""

from __future__ import annotations

import numpy as np
from harness import Measurement
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


def seconds(times: Measurement, **ratio: float) -> dict[str, float]:
    """The columns of a result that say how long something took."""
    fastest, rounds = min(times.seconds), len(times.seconds)
    columns = {"median_s": times.median, "fastest_s": fastest, **ratio}
    return {name: round(value, 4) for name, value in columns.items()} | {"rounds": rounds}
