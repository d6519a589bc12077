import numpy as np
import pytest
import torch
from ranking.checkerboard import interactions
from reference.ranking import figures, ranked_list

from bayescl_lab.ranking.full_ranking import TopItems
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.metrics import METRICS, Evaluation, evaluate_ranking, ranking_metrics
from bayescl_lab.ranking.scorers import EmbeddingScorer

USERS, ITEMS = 30, 40


@pytest.fixture(params=range(4))
def case(request):
    """Scores with ties, and parts in which some users have nothing to be found."""
    generator = np.random.default_rng(request.param)
    scores = generator.integers(12, size=(USERS, ITEMS)).astype(np.float32)
    train = generator.random((USERS, ITEMS)) < 0.3
    test = ~train & (generator.random((USERS, ITEMS)) < 0.1)
    test[3] = test[17] = False
    train[5] = ~test[5]  # everything unseen is to be found
    return scores, train, test


def scorer_of(scores: np.ndarray) -> EmbeddingScorer:
    return EmbeddingScorer(torch.from_numpy(scores), torch.eye(ITEMS))


def test_figures_equal_the_slow_reference(case):
    scores, train, test = case
    parts = RankingParts(interactions(train), interactions(test), "test")
    ks = (1, 3, 20, 40)
    ours = evaluate_ranking(scorer_of(scores), parts, ks)
    judged = [user for user in range(USERS) if test[user].any()]
    for k in ks:
        by_user = []
        for user in judged:
            seen, wanted = (set(np.flatnonzero(part[user]).tolist()) for part in (train, test))
            by_user.append(figures(ranked_list(scores[user].tolist(), seen, k), wanted, k))
        for name in METRICS:
            expected = np.mean([of_user[name] for of_user in by_user])
            assert ours.metrics[f"{name}@{k}"] == pytest.approx(expected, abs=1e-12), (name, k)
    assert (ours.users, ours.users_left_out) == (len(judged), USERS - len(judged))


def test_places_without_an_item_are_no_hits():
    # A place that is filled up with -1 must not be read as the last item of the user before.
    wanted = np.zeros((2, 4), dtype=bool)
    wanted[0, 3] = wanted[1, 0] = True
    lists = TopItems(torch.tensor([1]), torch.tensor([[1, -1, -1]]), torch.zeros(1, 3))
    assert ranking_metrics(lists, interactions(wanted), (3,))["recall@3"] == 0


def test_lists_that_are_too_short_are_refused_and_nothing_to_find_gives_no_metrics():
    lists = TopItems(torch.tensor([0]), torch.tensor([[1, 2]]), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="k must be at most the lists' length 2, got 3"):
        ranking_metrics(lists, interactions(np.ones((1, 9))), (3,))
    nothing = interactions(np.zeros((USERS, ITEMS)))
    scorer = scorer_of(np.zeros((USERS, ITEMS), dtype=np.float32))
    found = evaluate_ranking(scorer, RankingParts(nothing, nothing, "test"))
    assert found == Evaluation(0, users_left_out=USERS)
