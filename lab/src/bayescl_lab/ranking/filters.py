"""Turn the ids of a file into rows and columns, and filter interactions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl_lab._types import Ids
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.readers.table import RawInteractions, common_ids


def numbered_interactions(
    raw: RawInteractions,
    *,
    min_rating: float | None = None,
    sum_ratings: bool = False,
) -> tuple[Interactions, Interactions | None, Mapping[str, int]]:
    """Filter interactions, and number the remaining users and items.

    First, the ratings of each pair are added up if ``sum_ratings`` is set. Then ratings below the
    minimum are left out; without a minimum, sums of at most 0 are left out. Then repeated pairs are
    merged at their earliest time. Ids are sorted, as numbers if all are numbers. If the files have
    a test split, both splits have rows and columns for all ids. Test pairs that are also in
    training are left out.

    Returns:
        All interactions or their training split; the given test split or ``None``; and a report of
        skipped and merged data, as phrase and count.

    Raises:
        ValueError: if required ratings are missing, or nothing is left.
    """
    counts: dict[str, int] = {}
    frames = [raw.train] if raw.test is None else [raw.train, raw.test]
    for kind in ("user", "item"):
        ids = common_ids([frame[kind] for frame in frames])
        frames = [frame.with_columns(column) for frame, column in zip(frames, ids, strict=True)]
    if min_rating is not None or sum_ratings:
        if any("rating" not in frame.columns for frame in frames):
            raise ValueError(f"{raw.name} has no ratings, which min_rating and sum_ratings need")
        if sum_ratings:
            before = sum(map(len, frames))
            frames = [_summed(frame) for frame in frames]
            merged = before - sum(map(len, frames))
            counts["rows merged into sums by user and item"] = merged
        elif negative := sum(int((frame["rating"] < 0).sum()) for frame in frames):
            counts["ratings below 0 (if they are returns, --sum-ratings subtracts them)"] = negative
        before, rating = sum(map(len, frames)), pl.col("rating")
        kept = rating > 0 if min_rating is None else rating >= min_rating
        frames = [frame.filter(kept) for frame in frames]
        few = (
            "sums of ratings not above 0" if min_rating is None else f"ratings below {min_rating:g}"
        )
        counts[f"{few} left out"] = before - sum(map(len, frames))
    user_ids, rows = _numbered([frame["user"] for frame in frames])
    item_ids, columns = _numbered([frame["item"] for frame in frames])
    timed = all("timestamp" in frame.columns for frame in frames)
    train, *given = (
        Interactions.from_pairs(
            *pairs,
            user_ids=user_ids,
            item_ids=item_ids,
            timestamps=frame["timestamp"].to_physical().to_numpy() if timed else None,
            name=raw.name,
        )
        for frame, *pairs in zip(frames, rows, columns, strict=True)
    )
    if any(part.num_interactions == 0 for part in (train, *given)):
        raise ValueError(f"{raw.name}: no interactions are left")
    distinct = sum(part.num_interactions for part in (train, *given))
    counts["duplicate pairs merged"] = sum(map(len, rows)) - distinct
    test = None
    if given:
        known = train.contains(*given[0].pairs())  # a full ranking leaves out what training has
        counts["test pairs left out (also in training)"] = int(known.sum())
        if known.all():
            raise ValueError(
                f"{raw.name}: the training split contains every pair of the test split"
            )
        test = given[0].subset(~known)
    left_out = {phrase: count for phrase, count in counts.items() if count}
    return train, test, {**raw.report, **left_out}


def _summed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per pair, with sum of ratings and time of the first positive rating."""
    values = [pl.col("rating").sum().round(9)]  # so .1 + .2 - .3 is 0
    if "timestamp" in frame.columns:
        bought = pl.col("timestamp").filter(pl.col("rating") > 0).min()
        values.append(pl.coalesce(bought, pl.col("timestamp").min()))
    return frame.group_by("user", "item", maintain_order=True).agg(values)


def _numbered(columns: list[pl.Series]) -> tuple[Ids, list[NDArray[np.int64]]]:
    """Return the sorted ids of several columns, and each column as indices of these ids."""
    together = pl.concat(columns)
    if together.dtype != pl.Int64:
        together = together.cast(pl.String)
    distinct = together.unique().sort()
    ids = distinct.to_numpy() if distinct.dtype == pl.Int64 else np.array(distinct, dtype=np.str_)
    numbers = distinct.search_sorted(together).cast(pl.Int64).to_numpy()
    return ids, np.split(numbers, np.cumsum([len(column) for column in columns])[:-1])
