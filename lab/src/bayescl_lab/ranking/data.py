"""Options for a data set of interactions and its files."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Literal

from pydantic import FiniteFloat
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import CountOr0
from bayescl_lab._types import Config

Split = Literal["per-user", "last", "time", "given", "none"]
"""Kinds of splits."""


_OF_TABLES = (
    *("user_column", "item_column", "rating_column", "timestamp_column", "separator", "encoding"),
    *("quote", "no_header", "skip_bad_rows", "allow_null_ids", "date_format", "sum_ratings"),
    "test_data",
)
"""Options that files of a fixed format do not need."""


@dataclass(frozen=True)
class RankingData:
    """Data set and options for reading it.

    Attributes:
        data: Name of a data set (see "bayescl data list"), or the path of a table (CSV, TSV or
            Parquet; text also as .gz), or of a folder with LightGCN's train.txt and test.txt.
        split: How the test split is chosen: per-user (a random fifth of each user's interactions),
            last (each user's latest interaction), time (the latest fifth of all interactions),
            given (in the files), or none, which trains on all interactions without evaluation.
            Default: given if the files have a test split, else per-user.
        split_seed: Seed of random splits.
        user_column: Column of users in a table. Default: guessed (user, user_id, userId, ...).
        item_column: Column of items in a table. Default: guessed (item, item_id, movieId, ...).
        rating_column: Column of ratings in a table. Default: guessed if ratings are used.
        timestamp_column: Column of times in a table. Default: guessed if times are used.
        min_rating: Lowest rating that counts. Default: all count.
        sum_ratings: Add up the ratings of each user and item before min_rating applies, for example
            quantities with returns below 0. Without min_rating, sums of at most 0 are left out.
        date_format: Pattern of a table's dates, such as "%d.%m.%Y". Default: numbers, or dates such
            as 2024-05-31.
        test_data: Second table, with the test split.
        separator: Column separator of a table. Default: detected.
        encoding: Encoding of a text table, such as latin-1. Default: UTF-8.
        quote: Meaning of double quotes around values: double (they enclose the value) or none (they
            are ordinary characters). Default: detected.
        no_header: Whether the first line of a table is an interaction. Columns are then named 1, 2
            and so on. Columns 1 to 4 are user, item, rating and timestamp by default.
        skip_bad_rows: Skip and count rows of a table with missing or invalid values.
        allow_null_ids: Keep ids such as NULL, nan and None, which otherwise count as missing.

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
    date_format: str | None = None
    test_data: str | None = None
    separator: str | None = None
    encoding: str | None = None
    quote: Literal["double", "none"] | None = None
    no_header: bool = False
    skip_bad_rows: bool = False
    allow_null_ids: bool = False

    @property
    def columns(self) -> dict[str, str | None]:
        """Columns of a table to read, with their names if given."""
        names = {"user": self.user_column, "item": self.item_column}
        if self.min_rating is not None or self.rating_column is not None or self.sum_ratings:
            names["rating"] = self.rating_column
        if self.split in ("last", "time") or self.timestamp_column is not None:
            names["timestamp"] = self.timestamp_column
        if self.no_header:
            usual = {"user": "1", "item": "2", "rating": "3", "timestamp": "4"}
            return {kind: name or usual[kind] for kind, name in names.items()}
        return names

    def refuse(self, data: str) -> None:
        """Raise ``ValueError`` if an option for tables is given with a data set of fixed format."""
        if wrong := [name for name in _OF_TABLES if getattr(self, name) not in (None, False)]:
            raise ValueError(f"{data} has a fixed format: {wrong[0]} applies only to tables")

    @property
    def title(self) -> str:
        """Name of the data set in tables."""
        return self.data if self.split is None else f"{self.data}, {self.split} split"

    def as_config(self) -> Config:
        """Return the options as plain values."""
        return asdict(self)

    @classmethod
    def pop_from(cls, values: Config) -> RankingData:
        """Remove these options from a run's settings."""
        names = [field.name for field in fields(cls)]
        return cls(**{name: values.pop(name) for name in names if name in values})
