import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.interactions import Interactions

PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 7)), max_size=40)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_the_matrix_holds_exactly_the_distinct_pairs(pairs):
    users, items = zip(*pairs, strict=True) if pairs else ((), ())
    chosen = Interactions.from_pairs(users, items, user_ids=6, item_ids=8)
    assert list(zip(*chosen.pairs(), strict=True)) == sorted(set(pairs))
    assert chosen.matrix.has_canonical_format
    assert chosen.matrix.dtype == np.float32
    assert chosen.density == len(set(pairs)) / 48


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_pairs_does_not_matter_and_the_earliest_time_stays(pairs, random):
    timed = [(user, item, random.randrange(100)) for user, item in pairs]
    earliest: dict[tuple[int, int], int] = {}
    for user, item, time in timed:
        earliest[user, item] = min(time, earliest.get((user, item), time))
    random.shuffle(timed)
    users, items, times = zip(*timed, strict=True) if timed else ((), (), ())
    chosen = Interactions.from_pairs(users, items, user_ids=6, item_ids=8, timestamps=times)
    assert chosen.timestamps.tolist() == [earliest[pair] for pair in sorted(earliest)]


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.data())
def test_a_subset_has_those_entries_and_their_times(pairs, data):
    users, items = zip(*sorted(set(pairs)), strict=True) if pairs else ((), ())
    times = np.arange(len(users))
    whole = Interactions.from_pairs(users, items, user_ids=6, item_ids=8, timestamps=times)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(users), max_size=len(users))))
    mask = mask.astype(bool)
    part, numbers = whole.subset(mask), whole.subset(np.flatnonzero(mask)[::-1])
    assert part.timestamps.tolist() == times[mask].tolist()
    for found in (part, numbers):
        assert np.array_equal(found.pairs(), np.array(whole.pairs())[:, mask])
        assert found.matrix.has_canonical_format
        assert found.matrix.shape == whole.matrix.shape
