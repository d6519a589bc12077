"""Turn the ids of a file into rows and columns, and filter interactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayescl.checks import check_count
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.readers.table import RawInteractions, common_ids


def numbered_interactions(
    raw: RawInteractions,
    *,
    min_rating: float | None = None,
    sum_ratings: bool = False,
    k_core: int = 0,
) -> tuple[Interactions, Interactions | None, Mapping[str, int]]:
    """Filter interactions, and number the remaining users and items.

    First, the ratings of each pair are added up if ``sum_ratings`` is set. Then ratings below the
    minimum are left out; without a minimum, sums of at most 0 are left out. Then repeated pairs are
    merged at their earliest time, and the k-core is taken. Ids are sorted, as numbers if all are
    numbers. If the files have a test part, both parts have rows and columns for all ids. Test pairs
    that are also in training are left out.

    Returns:
        All interactions or their training part; the given test part or ``None``; and a report of
        skipped and merged data, as phrase and count.

    Raises:
        ValueError: if there are no ratings, a k-core would change a given test part, or nothing is
            left.
    """
    if k_core and raw.test is not None:
        raise ValueError(f"k_core would change the given test part of {raw.name}")
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
            counts["rows added to others of the same user and item"] = merged
        elif negative := sum(int((frame["rating"] < 0).sum()) for frame in frames):
            counts["ratings below 0 (if they are returns, --sum-ratings subtracts them)"] = negative
        rated, rating = frames, pl.col("rating")
        kept = rating > 0 if min_rating is None else rating >= min_rating
        frames = [frame.filter(kept) for frame in frames]
        lost = sum(map(len, rated)) - sum(map(len, frames))
        few = (
            "sums of ratings not above 0" if min_rating is None else f"ratings below {min_rating:g}"
        )
        enough = "sum of ratings above 0" if min_rating is None else f"rating of {min_rating:g}"
        counts[f"{few} left out"] = lost
        for what in ("user", "item"):
            before, after = (
                pl.concat([frame[what] for frame in part]).n_unique() for part in (rated, frames)
            )
            counts[f"{what}s without a {enough} left out"] = before - after
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
        counts["test pairs that are also in training left out"] = int(known.sum())
        if known.all():
            raise ValueError(f"{raw.name}: the training part has every pair of the test part")
        test = given[0].subset(~known)
    whole = core(train, k_core)
    counts[f"users outside the {k_core}-core"] = train.num_users - whole.num_users
    counts[f"items outside the {k_core}-core"] = train.num_items - whole.num_items
    left_out = {phrase: count for phrase, count in counts.items() if count}
    return whole, test, {**raw.report, **left_out}


def _summed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per pair, with the sum of its ratings and its earliest purchase."""
    values = [pl.col("rating").sum().round(9)]  # so .1 + .2 - .3 is 0
    if "timestamp" in frame.columns:
        bought = pl.col("timestamp").filter(pl.col("rating") > 0).min()
        values.append(pl.coalesce(bought, pl.col("timestamp").min()))
    return frame.group_by("user", "item", maintain_order=True).agg(values)


def core(interactions: Interactions, k: int) -> Interactions:
    """Return the largest set of interactions in which every user and item has at least ``k``.

    Rows and columns of other users and items are removed. 0 keeps all, including empty ones. Raises
    ``ValueError`` if nothing is left.
    """
    check_count("k_core", k, 0)
    if k == 0:
        return interactions
    users, items = interactions.pairs()
    kept = np.arange(len(users))
    while True:
        per_user = np.bincount(users[kept], minlength=interactions.num_users)
        per_item = np.bincount(items[kept], minlength=interactions.num_items)
        enough = (per_user[users[kept]] >= k) & (per_item[items[kept]] >= k)
        if enough.all():
            break
        kept = kept[enough]
    if len(kept) == 0:
        raise ValueError(f"{interactions.name}: no interactions are left in the {k}-core")
    part = interactions.subset(kept)
    users, items = (np.flatnonzero(counts) for counts in (per_user, per_item))
    return replace(
        part,
        matrix=csr_array(part.matrix[users][:, items]),
        user_ids=interactions.user_ids[users],
        item_ids=interactions.item_ids[items],
    )


def _numbered(columns: list[pl.Series]) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Return the sorted ids of several columns, and each column as indices of these ids."""
    together = pl.concat(columns)
    distinct = together.unique()
    if together.dtype == pl.Int64:
        ids = np.sort(distinct.to_numpy())
        numbers = np.searchsorted(ids, together.to_numpy())
    else:
        distinct = distinct.cast(pl.String).sort()
        ids = np.array(distinct.to_list(), dtype=np.str_)
        numbers = together.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).to_numpy()
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return ids, np.split(numbers, ends)
