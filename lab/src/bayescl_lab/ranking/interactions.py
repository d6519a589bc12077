"""Interactions as one sparse matrix with the original ids."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from bayescl_lab._types import AnyArray


@dataclass(frozen=True, eq=False)
class Interactions:
    """Observed pairs of users and items, without ratings.

    Attributes:
        matrix: Matrix of users x items in canonical CSR form (sorted, no duplicates), with float32
            ones.
        user_ids: Original id of each row, int64 or str.
        item_ids: Original id of each column, int64 or str.
        timestamps: Time of each stored entry, in the order of the matrix: integers (nanoseconds for
            dates) or floats. ``None`` if unknown.
        name: Name of the interactions in tables and messages.
    """

    matrix: csr_array
    user_ids: AnyArray
    item_ids: AnyArray
    timestamps: AnyArray | None = None
    name: str = "interactions"

    @classmethod
    def from_pairs(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        *,
        user_ids: AnyArray | int,
        item_ids: AnyArray | int,
        timestamps: ArrayLike | None = None,
        name: str = "interactions",
    ) -> Interactions:
        """Create interactions from pairs of row and column numbers in any order.

        Repeated pairs are kept once, at their earliest time.

        Args:
            users: Row of each pair, from 0.
            items: Column of each pair, from 0.
            user_ids: Original id of each row, or the number of rows. Row numbers are then the ids.
            item_ids: Original id of each column, or the number of columns.
            timestamps: Time of each pair. Default: unknown.
            name: Name of the interactions in tables and messages.

        Example:
            >>> chosen = Interactions.from_pairs([1, 0, 0], [2, 1, 0], user_ids=2, item_ids=3)
            >>> chosen.matrix.toarray().tolist()
            [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
        """
        if isinstance(user_ids, int):
            user_ids = np.arange(user_ids, dtype=np.int64)
        if isinstance(item_ids, int):
            item_ids = np.arange(item_ids, dtype=np.int64)
        columns = {"user": np.asarray(users, np.int64), "item": np.asarray(items, np.int64)}
        if timestamps is not None:
            columns["time"] = np.asarray(timestamps)
        pairs = pl.DataFrame(columns).group_by("user", "item").agg(pl.all().min())
        pairs = pairs.sort("user", "item")
        indices = pairs["user"].to_numpy(), pairs["item"].to_numpy()
        ones = np.ones(len(pairs), dtype=np.float32)
        matrix = csr_array((ones, indices), shape=(len(user_ids), len(item_ids)))
        times = None if timestamps is None else pairs["time"].to_numpy()
        return cls(matrix, user_ids, item_ids, times, name)

    @property
    def num_users(self) -> int:
        """Number of rows, including users without interactions."""
        return int(self.matrix.shape[0])

    @property
    def num_items(self) -> int:
        """Number of columns, including items without interactions."""
        return int(self.matrix.shape[1])

    @property
    def num_interactions(self) -> int:
        """Number of stored pairs."""
        return int(self.matrix.nnz)

    @property
    def density(self) -> float:
        """Share of stored pairs among all pairs of a user and an item."""
        return self.num_interactions / (self.num_users * self.num_items)

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the row and the column of every stored entry, in the order of the matrix."""
        per_user = np.diff(self.matrix.indptr)
        users = np.repeat(np.arange(self.num_users, dtype=np.int64), per_user)
        return users, self.matrix.indices.astype(np.int64)

    def subset(self, entries: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Interactions:
        """Return the entries of a mask or of indices, with the same users and items."""
        users, items = (numbers[entries] for numbers in self.pairs())
        times = None if self.timestamps is None else self.timestamps[entries]
        return self._with_pairs(users, items, times)

    def _with_pairs(
        self, users: AnyArray, items: AnyArray, times: AnyArray | None = None
    ) -> Interactions:
        """Return other pairs of the same users and items."""
        ids = {"user_ids": self.user_ids, "item_ids": self.item_ids}
        return self.from_pairs(users, items, timestamps=times, name=self.name, **ids)

    def contains(self, users: AnyArray, items: AnyArray) -> NDArray[np.bool_]:
        """Return True for pairs of a row and a column that are stored.

        Item -1 is never stored.
        """
        stored_users, stored_items = self.pairs()
        stored = np.append(stored_users * self.num_items + stored_items, np.iinfo(np.int64).max)
        wanted = users * self.num_items + items
        is_stored: NDArray[np.bool_] = stored[np.searchsorted(stored, wanted)] == wanted
        return is_stored & (items >= 0)

    def joined(self, other: Interactions) -> Interactions:
        """Join interactions of the same users and items. Times are dropped."""
        return self._with_pairs(*np.concatenate([self.pairs(), other.pairs()], axis=1))


def in_words(report: Mapping[str, int]) -> list[str]:
    """Format counts with their phrases. The first noun is singular for 1.

    Example:
        >>> in_words({"duplicate pairs merged": 1, "users without items": 1200})
        ['1 duplicate pair merged', '1,200 users without items']
    """
    nouns = re.compile(r"\b(rating|user|item|pair|row|line|interaction|sum|list)s\b")
    return [
        f"{count:,} {phrase}" if count != 1 else "1 " + nouns.sub(r"\1", phrase, count=1)
        for phrase, count in report.items()
    ]


@dataclass(frozen=True, eq=False)
class RankingParts:
    """Training and evaluation interactions with the same rows and columns, without overlap.

    Attributes:
        train: Training interactions, which full rankings exclude.
        evaluation: Relevant interactions of full rankings.
        evaluated_on: Name of the evaluation split, "test" or "validation".
        reading: Counts of skipped and merged data by phrase, such as ``{"duplicate pairs merged":
            3}``. Empty if there are none.
        unseen: Test split if ``evaluation`` is the validation split, else ``None``.
    """

    train: Interactions
    evaluation: Interactions
    evaluated_on: str
    reading: Mapping[str, int] = field(default_factory=dict)
    unseen: Interactions | None = None

    @property
    def report(self) -> dict[str, int]:
        """Count skipped and merged data, and evaluation pairs unknown to training."""
        users, items = self.evaluation.pairs()
        no_user = np.diff(self.train.matrix.indptr)[users] == 0
        no_item = np.bincount(self.train.matrix.indices, minlength=self.train.num_items)[items] == 0
        unknown = {
            "evaluation pairs of a user unknown to training": int(no_user.sum()),
            "evaluation pairs with an item unknown to training": int(no_item.sum()),
        }
        return {**self.reading, **{phrase: count for phrase, count in unknown.items() if count}}
