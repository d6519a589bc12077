"""What a run on interactions reads, and how the files are to be understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from bayescl.recsys.datasets import load_interactions
from bayescl.recsys.interactions import RankingParts


@dataclass(frozen=True)
class RankingData:
    """A data set and everything that decides what is read from it.

    Attributes:
        data: a known name or a path; see :func:`~bayescl.recsys.datasets.load_interactions`,
            which says what the others mean.
        split: how the test part comes about.
        split_seed: fixes what a split draws.
        user_column: a table's column of users.
        item_column: a table's column of items.
        rating_column: a table's column of ratings.
        timestamp_column: a table's column of times.
        min_rating: the lowest rating that counts.
        k_core: fewest interactions of a user or item that stays.
        separator: what stands between a table's values.
        test_data: a second table with the test part.
    """

    data: str = "ml-100k"
    split: str | None = None
    split_seed: int = 0
    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None
    timestamp_column: str | None = None
    min_rating: float | None = None
    k_core: int = 0
    separator: str | None = None
    test_data: str | None = None

    def load(self, evaluate_on: str) -> RankingParts:
        """Read the data set.

        Args:
            evaluate_on: "test", or "validation" to leave the test part unseen.

        Raises:
            ValueError: if it cannot be read as described.
        """
        return load_interactions(evaluate_on=evaluate_on, **asdict(self))

    @property
    def title(self) -> str:
        """The data set as tables call it.

        Example:
            >>> RankingData("ml-100k", split="author").title
            'ml-100k, author split'
        """
        return self.data if self.split is None else f"{self.data}, {self.split} split"

    @classmethod
    def taken_from(cls, values: dict[str, Any]) -> RankingData:
        """Take the fields out of a mapping that holds others besides."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: values.pop(name) for name in names if name in values})


def same_data(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two runs' settings read the same interactions.

    Example:
        >>> same_data({"data": "a", "lr": 1.0}, {"data": "a", "lr": 2.0})
        True
    """
    names = [field.name for field in fields(RankingData)]
    return all(one.get(name) == other.get(name) for name in names)
