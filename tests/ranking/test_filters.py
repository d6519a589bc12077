from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.filters import core, numbered_interactions
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.readers.table import RawInteractions


def frame(*rows: tuple, columns=("user", "item")) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")


def by_ids(interactions: Interactions) -> set[tuple]:
    users, items = interactions.pairs()
    ids = interactions.user_ids[users].tolist(), interactions.item_ids[items].tolist()
    return set(zip(*ids, strict=True))


def slow_core(pairs: set[tuple[int, int]], k: int) -> set[tuple[int, int]]:
    """Leave out one user or item at a time until all that are left have enough."""
    while True:
        for side in (0, 1):
            few = {p[side] for p in pairs if sum(q[side] == p[side] for q in pairs) < k}
            if few:
                pairs = {pair for pair in pairs if pair[side] != min(few)}
                break
        else:
            return pairs


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1), st.integers(1, 4))
def test_the_core_equals_leaving_out_one_by_one(pairs, k):
    users, items = zip(*sorted(pairs), strict=True)
    times = np.arange(len(pairs))
    whole = Interactions.from_pairs(users, items, user_ids=7, item_ids=7, timestamps=times)
    expected = slow_core(set(pairs), k)
    if not expected:
        with pytest.raises(ValueError, match=f"no interactions are left in the {k}-core"):
            core(whole, k)
        return
    found = core(whole, k)
    assert by_ids(found) == expected
    assert found.matrix.has_canonical_format
    assert {len({p[side] for p in expected}) for side in (0, 1)} == set(found.matrix.shape)
    assert found.timestamps.tolist() == [
        time for time, pair in enumerate(sorted(pairs)) if pair in expected
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["ann", "bob", "07", "é"]), st.integers(-3, 3)), min_size=1)
)
def test_ids_survive_and_are_sorted(pairs):
    whole, test, report = numbered_interactions(RawInteractions(frame(*pairs)))
    assert by_ids(whole) == set(pairs)
    assert whole.user_ids.tolist() == sorted({user for user, _ in pairs})
    assert whole.item_ids.dtype == np.int64
    assert test is None
    assert report.get("duplicate pairs merged", 0) == len(pairs) - len(set(pairs))


def test_ratings_below_the_minimum_go_before_anything_else():
    rows = [(1, 1, 5.0), (1, 2, 1.0), (2, 1, 4.0), (3, 2, 3.9)]
    raw = RawInteractions(frame(*rows, columns=("user", "item", "rating")))
    whole, _, report = numbered_interactions(raw, min_rating=4)
    assert by_ids(whole) == {(1, 1), (2, 1)}
    assert whole.matrix.shape == (2, 1)
    assert report == {
        "ratings below 4 left out": 2,
        "users without a rating of 4 left out": 1,
        "items without a rating of 4 left out": 1,
    }


def test_a_test_part_shares_rows_and_columns_and_loses_what_training_has():
    raw = RawInteractions(train=frame((1, 1), (2, 2), (1, 1)), test=frame((1, 1), (1, 2), (4, 9)))
    train, test, report = numbered_interactions(raw)
    assert by_ids(train) == {(1, 1), (2, 2)}
    assert by_ids(test) == {(1, 2), (4, 9)}
    assert train.matrix.shape == test.matrix.shape == (3, 3)
    assert report == {
        "duplicate pairs merged": 1,
        "test pairs that are also in training left out": 1,
    }


def test_what_the_core_leaves_out_is_counted():
    raw = RawInteractions(frame((1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 9)))
    _, _, report = numbered_interactions(raw, k_core=2)
    assert report == {"items outside the 2-core": 1, "users outside the 2-core": 1}


def test_contradictions_and_empty_results_are_refused():
    plain = RawInteractions(frame((1, 1)), name="mine")
    given_test = RawInteractions(frame((1, 1)), test=frame((1, 1)), name="mine")
    rated = RawInteractions(frame((1, 1, 2.0), columns=("user", "item", "rating")), name="mine")
    for raw, options, message in (
        (plain, {"min_rating": 3}, "mine has no ratings, which min_rating and sum_ratings need"),
        (given_test, {"k_core": 2}, "k_core would change the given test part of mine"),
        (given_test, {}, "training part has every pair of the test part"),
        (plain, {"k_core": -1}, "k_core must be a whole number of at least 0, got -1"),
        (rated, {"min_rating": 3}, "mine: no interactions are left"),
    ):
        with pytest.raises(ValueError, match=message):
            numbered_interactions(raw, **options)
