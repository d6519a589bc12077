"""A data set of interactions by name or path, and how its files are read."""

from __future__ import annotations

from dataclasses import asdict, field, fields, make_dataclass
from typing import Any, Literal

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import CountOr0

Split = Literal["per-user", "random", "last", "time", "given", "author", "none"]
"""Ways to choose the test part."""

_OF_TABLES = (
    *("user_column", "item_column", "rating_column", "timestamp_column"),
    *("separator", "encoding", "no_header", "date_format", "skip_bad_rows", "allow_null_ids"),
    *("sum_ratings", "test_data"),
)
"""Options that files of a fixed format do not need."""


@dataclass(frozen=True)
class RankingData:
    """A data set and the options for reading it.

    Attributes:
        data: name of a data set (see "bayescl data list"), or the path of a table (CSV, TSV,
            JSON Lines, Parquet or RecBole's .inter; text also as .gz), or of a folder with
            train.txt and test.txt, or train.csv and test.csv.
        split: how the test part is chosen: per-user (at random 4:1), random, last (everybody's
            latest interaction), time (the latest fifth of all interactions), given, author
            (ml-100k), or none, which trains on all interactions and evaluates nothing; default:
            given if the files have a test part, else per-user.
        split_seed: seed of random splits.
        user_column: a table's column of users; default: guessed (user, user_id, userId, ...).
        item_column: a table's column of items; default: guessed (item, item_id, movieId, ...).
        rating_column: a table's column of ratings; default: guessed if ratings are used.
        timestamp_column: a table's column of times; default: guessed if times are used.
        min_rating: the lowest rating that counts; default: all count.
        sum_ratings: add up the ratings of each user and item, such as quantities of which returns
            are negative, before min_rating; pairs with a sum of at most 0 are left out.
        k_core: leave out users and items with fewer interactions than this.
        separator: a table's column separator; default: detected.
        encoding: how a text table is encoded, such as latin-1; default: UTF-8.
        no_header: the table's first line is an interaction; its columns are called 1, 2 and so on,
            by default user, item, rating and timestamp in this order.
        date_format: order of day and month in a table's times, dmy or mdy, or a pattern such as
            "%d %b %Y"; default: found from the values, which must tell.
        skip_bad_rows: leave out and count rows of a table with missing or unparsable values.
        allow_null_ids: keep ids such as NULL, nan and None, which otherwise count as missing.
        test_data: a second table with the test part.

    Raises:
        ValueError: if a value has the wrong type.
    """

    data: str = "ml-100k"
    split: Split | None = None
    split_seed: CountOr0 = 0
    user_column: str | None = None
    item_column: str | None = None
    rating_column: str | None = None
    timestamp_column: str | None = None
    min_rating: FiniteFloat | None = None
    sum_ratings: bool = False
    k_core: CountOr0 = 0
    separator: str | None = None
    encoding: str | None = None
    no_header: bool = False
    date_format: str | None = None
    skip_bad_rows: bool = False
    allow_null_ids: bool = False
    test_data: str | None = None

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns of a table to read, with their names if given."""
        names = {"user": self.user_column, "item": self.item_column}
        if self.min_rating is not None or self.rating_column is not None or self.sum_ratings:
            names["rating"] = self.rating_column
        if self.split in ("last", "time") or self.timestamp_column is not None:
            names["timestamp"] = self.timestamp_column
        if self.no_header:
            usual = {"user": "1", "item": "2", "rating": "3", "timestamp": "4"}
            return {kind: name or usual[kind] for kind, name in names.items()}
        return names

    def refuse(self, what: str, names: tuple[str, ...] = _OF_TABLES) -> None:
        """Refuse options, by default all of tables, for a format that does not need them."""
        if wrong := [name for name in names if getattr(self, name) not in (None, False)]:
            raise ValueError(f"{what} has a fixed format: {wrong[0]} is for tables")

    @property
    def title(self) -> str:
        """Name of the data set in tables."""
        return self.data if self.split is None else f"{self.data}, {self.split} split"

    def as_config(self) -> dict[str, Any]:
        """The options as plain values."""
        return asdict(self)

    @classmethod
    def taken_from(cls, values: dict[str, Any]) -> RankingData:
        """Remove these options from a run's settings."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: values.pop(name) for name in names if name in values})


_OF_ALL_TABLES = (
    *("user_column", "item_column", "separator", "encoding", "no_header"),
    *("skip_bad_rows", "allow_null_ids"),
)
TableOptions: Any = dataclass(
    make_dataclass(
        "TableOptions",
        [
            (option.name, option.type, field(default=option.default))
            for option in fields(RankingData)
            if option.name in _OF_ALL_TABLES
        ],
        frozen=True,
        namespace={"__doc__": RankingData.__doc__, "__module__": __name__},
    ),
    frozen=True,
)
"""The options of :class:`RankingData` that say how pairs are read from any table."""
