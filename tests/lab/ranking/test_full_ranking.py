import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking.checkerboard import interactions
from reference.ranking import ranked_list

from bayescl_lab.ranking.full_ranking import full_ranking, top_columns


class Table:
    """Scores written down."""

    def __init__(self, scores: torch.Tensor) -> None:
        self.table = scores
        self.num_users, self.num_items = scores.shape

    def scores(self, users: torch.Tensor) -> torch.Tensor:
        return self.table[users]


def reference(scores: torch.Tensor, seen: np.ndarray, k: int) -> list[list[int]]:
    lists = []
    for row, hidden in zip(scores.double().tolist(), seen, strict=True):
        ranking = ranked_list(row, set(np.flatnonzero(hidden).tolist()), k)
        lists.append(ranking + [-1] * (k - len(ranking)))
    return lists


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    items=st.sampled_from([1, 5, 64, 700, 2000, 2047]),
    levels=st.sampled_from([1, 2, 30, 10**6]),
    k=st.integers(1, 25),
    density=st.sampled_from([0.0, 0.05, 0.97, 1.0]),
)
def test_lists_equal_the_slow_reference_ties_included(seed, items, levels, k, density):
    generator = np.random.default_rng(seed)
    scores = torch.from_numpy(generator.integers(levels, size=(4, items)).astype(np.float32))
    seen = generator.random((4, items)) < density
    top = full_ranking(Table(scores), k, seen=interactions(seen))
    assert top.items.tolist() == reference(scores, seen, min(k, items))
    listed = top.items >= 0
    assert torch.equal(top.scores[listed], scores.gather(1, top.items.clamp(min=0))[listed])


def test_infinite_scores_are_ranked_and_double_precision_is_told_apart():
    scores = torch.tensor([[torch.inf, 0.0, -torch.inf, torch.inf]])
    assert full_ranking(Table(scores), 4).items.tolist() == [[0, 3, 1, -1]]
    scores = torch.tensor([[1.0, 1.0 + 1e-12]], dtype=torch.float64)
    assert full_ranking(Table(scores), 1).items.tolist() == [[1]]


def test_nan_is_refused_wherever_it_is():
    for place in (0, -1):
        scores = torch.zeros(2, 10)
        scores[1, place] = torch.nan
        with pytest.raises(ValueError, match="must not be NaN"):
            top_columns(scores, 3)


def test_bad_arguments_are_refused():
    table = Table(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        full_ranking(table, 0)
    with pytest.raises(ValueError, match=r"\[2, 4\], got \[3, 3\]"):
        full_ranking(table, 1, seen=interactions(np.eye(3)))
