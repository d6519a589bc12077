"""What holds for every recommender, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranking.checkerboard import checkerboard
from ranking.recommenders import ALL

from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.metrics import evaluate_ranking

PARTS = checkerboard()
TRAIN = PARTS.train
EVERYBODY = torch.arange(TRAIN.num_users)


@pytest.fixture(scope="module", params=ALL)
def fitted(request):
    """The name of a recommender, and the recommender."""
    return request.param, ALL[request.param](TRAIN)


def test_it_finds_every_hidden_square_of_the_checkerboard_unless_it_is_popularity(fitted):
    name, scorer = fitted
    figures = evaluate_ranking(scorer, PARTS, ks=(2,))
    assert (figures["recall@2"] > 0.95) == (figures["ndcg@2"] > 0.95) == (name != "popularity")
    assert name != "popularity" or figures["recall@2"] < 0.5


def test_lists_hold_unseen_items_once_whoever_is_ranked_beside_and_however_long(fitted):
    _, scorer = fitted
    long = full_ranking(scorer, TRAIN.num_items, seen=TRAIN).items
    seen = TRAIN.matrix.toarray() > 0
    for user, items in enumerate(long.tolist()):
        recommended = [item for item in items if item >= 0]
        assert sorted(recommended) == np.flatnonzero(~seen[user]).tolist()
    users = torch.tensor([5, 0, 5, 30])
    for block_size in (1, 3):
        lists = full_ranking(scorer, 7, seen=TRAIN, users=users, block_size=block_size)
        assert torch.equal(lists.items, long[users, :7])


def test_it_says_how_many_users_and_items_it_knows_and_scores_all(fitted):
    name, scorer = fitted
    assert (scorer.num_users, scorer.num_items) == TRAIN.matrix.shape
    scores = scorer.scores(EVERYBODY)
    assert scores.shape == TRAIN.matrix.shape
    assert bool(scores.isfinite().all())
    if name == "LightGCN, BPR":  # training again with the same seed gives the same
        assert torch.equal(ALL[name](TRAIN).scores(EVERYBODY), scores)
