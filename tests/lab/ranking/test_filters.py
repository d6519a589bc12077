import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.filters import numbered_interactions
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.readers.table import RawInteractions


def frame(*rows: tuple, columns=("user", "item")) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")


def by_ids(interactions: Interactions) -> set[tuple]:
    users, items = interactions.pairs()
    ids = interactions.user_ids[users].tolist(), interactions.item_ids[items].tolist()
    return set(zip(*ids, strict=True))


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
    }


def test_a_test_part_shares_rows_and_columns_and_loses_what_training_has():
    raw = RawInteractions(train=frame((1, 1), (2, 2), (1, 1)), test=frame((1, 1), (1, 2), (4, 9)))
    train, test, report = numbered_interactions(raw)
    assert by_ids(train) == {(1, 1), (2, 2)}
    assert by_ids(test) == {(1, 2), (4, 9)}
    assert train.matrix.shape == test.matrix.shape == (3, 3)
    assert report == {
        "duplicate pairs merged": 1,
        "test pairs left out (also in training)": 1,
    }


def test_contradictions_and_empty_results_are_refused():
    plain = RawInteractions(frame((1, 1)), name="mine")
    given_test = RawInteractions(frame((1, 1)), test=frame((1, 1)), name="mine")
    rated = RawInteractions(frame((1, 1, 2.0), columns=("user", "item", "rating")), name="mine")
    for raw, options, message in (
        (plain, {"min_rating": 3}, "mine has no ratings, which min_rating and sum_ratings need"),
        (given_test, {}, "training split contains every pair of the test split"),
        (rated, {"min_rating": 3}, "mine: no interactions are left"),
    ):
        with pytest.raises(ValueError, match=message):
            numbered_interactions(raw, **options)
