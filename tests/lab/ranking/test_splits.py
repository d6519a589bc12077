import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.splits import split_interactions

COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=8)


def chosen_by(counts: list[int], *, seed: int = 0) -> Interactions:
    """So many random items of 15 for each user, at random times."""
    generator = np.random.default_rng(seed)
    users = np.repeat(np.arange(len(counts)), counts)
    items = [item for count in counts for item in generator.permutation(15)[:count]]
    times = generator.integers(0, 4, len(users))
    return Interactions.from_pairs(
        users, items, user_ids=len(counts), item_ids=15, timestamps=times
    )


def sizes(interactions: Interactions) -> list[int]:
    return np.diff(interactions.matrix.indptr).tolist()


@pytest.mark.parametrize("kind", ["per-user", "last", "time"])
@settings(max_examples=60, deadline=None)
@given(counts=COUNTS, seed=st.integers(0, 3))
def test_every_interaction_is_in_exactly_one_part(kind, counts, seed):
    whole = chosen_by(counts)
    try:
        train, test = split_interactions(whole, kind, share=0.2, seed=seed)
    except ValueError:  # too few to split, see below
        return
    assert not (train.matrix.multiply(test.matrix)).nnz
    assert ((train.matrix + test.matrix) != whole.matrix).nnz == 0
    assert sorted([*train.timestamps, *test.timestamps]) == sorted(whole.timestamps)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 15), min_size=1, max_size=8), st.sampled_from([0.1, 0.2, 0.5, 0.9]))
def test_per_user_holds_out_the_rounded_share_and_leaves_everyone_something(counts, share):
    whole = chosen_by([*counts, 15])
    _, test = split_interactions(whole, "per-user", share=share, seed=0)
    for count, held_out in zip([*counts, 15], sizes(test), strict=True):
        rounded = int(np.floor(count * share + 0.5))
        assert held_out == max(0, min(rounded, count - 1))


def test_last_holds_out_the_latest_interaction_of_all_who_have_two():
    users, items, times = [0, 0, 0, 1, 2, 2], [3, 1, 2, 0, 4, 1], [9.0, 5.0, 7.0, 1.0, 6.0, 6.0]
    whole = Interactions.from_pairs(users, items, user_ids=4, item_ids=5, timestamps=times)
    drawn = set()
    for seed in range(9):
        _, test = split_interactions(whole, "last", share=0.2, seed=seed)
        latest, (user, item) = zip(*test.pairs(), strict=True)
        assert (latest, user) == ((0, 3), 2)
        drawn.add(item)
    assert drawn == {1, 4}  # equal times


def test_a_split_in_time_holds_out_the_latest_of_all_and_divides_no_moment():
    users, items = np.divmod(np.arange(20), 5)
    for times, held_out in (
        (np.arange(20.0), 4),
        ([1.0] * 15 + [2.0] * 5, 5),
        ([1.0] * 2 + [2.0] * 18, 18),
        ([1.0] * 16 + [2.0, 2.0, 2.0, 3.0], 4),
    ):
        whole = Interactions.from_pairs(users, items, user_ids=4, item_ids=5, timestamps=times)
        train, test = split_interactions(whole, "time", share=0.2, seed=0)
        assert test.num_interactions == held_out
        assert train.timestamps.max() < test.timestamps.min()
    whole = Interactions.from_pairs(users, items, user_ids=4, item_ids=5, timestamps=[1.0] * 20)
    with pytest.raises(ValueError, match=r"too few interactions to split \(time\)"):
        split_interactions(whole, "time", share=0.2, seed=0)


def test_a_split_depends_on_its_seed_and_draw_alone():
    whole = chosen_by([10] * 30)
    np.random.seed(1)  # noqa: NPY002
    first, _ = split_interactions(whole, "per-user", share=0.2, seed=0)
    np.random.seed(2)  # noqa: NPY002
    again, _ = split_interactions(whole, "per-user", share=0.2, seed=0)
    others = [
        split_interactions(whole, "per-user", share=0.2, seed=seed, draw=draw)[0]
        for seed, draw in ((1, 0), (0, 1))
    ]
    assert (first.matrix != again.matrix).nnz == 0
    assert all((first.matrix != other.matrix).nnz for other in others)


def test_what_cannot_be_split_is_refused():
    whole = chosen_by([5, 5])
    for data, kind, share, message in (
        (whole, "half", 0.5, "split must be one of per-user, last"),
        (whole, "per-user", 1.0, "share must be below 1, got 1.0"),
        (chosen_by([1, 2, 1]), "per-user", 0.2, "too few interactions to split"),
    ):
        with pytest.raises(ValueError, match=message):
            split_interactions(data, kind, share=share, seed=0)
    untimed = Interactions.from_pairs([0, 0], [0, 1], user_ids=1, item_ids=2)
    for kind in ("last", "time"):
        with pytest.raises(ValueError, match="has no timestamps to split by"):
            split_interactions(untimed, kind, share=0.2, seed=0)
