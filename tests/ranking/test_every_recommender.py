"""What holds for every recommender, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranking.checkerboard import checkerboard
from ranking.recommenders import ALL, PERSONAL, TRAINED

from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.metrics import evaluate_ranking

PARTS = checkerboard()
TRAIN = PARTS.train


@pytest.fixture(scope="module")
def fitted():
    kept = {}

    def fit(name):
        if name not in kept:
            kept[name] = ALL[name](TRAIN)
        return kept[name]

    return fit


@pytest.mark.parametrize("name", PERSONAL)
def test_it_finds_every_hidden_square_of_the_checkerboard(name, fitted):
    figures = evaluate_ranking(fitted(name), PARTS, ks=(2,))
    assert figures["recall@2"] > 0.95
    assert figures["ndcg@2"] > 0.95


def test_popularity_cannot_tell_the_groups_apart(fitted):
    assert evaluate_ranking(fitted("popularity"), PARTS, ks=(2,))["recall@2"] < 0.5


@pytest.mark.parametrize("name", ALL)
def test_no_list_holds_an_item_twice_or_one_seen_in_training(name, fitted):
    lists = full_ranking(fitted(name), TRAIN.num_items, seen=TRAIN).items
    seen = TRAIN.matrix.toarray() > 0
    for user, items in enumerate(lists.tolist()):
        recommended = [item for item in items if item >= 0]
        assert sorted(recommended) == np.flatnonzero(~seen[user]).tolist()


@pytest.mark.parametrize("name", ALL)
def test_a_users_list_depends_neither_on_the_block_nor_on_the_other_users(name, fitted):
    scorer = fitted(name)
    together = full_ranking(scorer, 7, seen=TRAIN)
    some = torch.tensor([5, 0, 5, 30])
    for block_size in (1, 3):
        apart = full_ranking(scorer, 7, seen=TRAIN, users=some, block_size=block_size)
        assert torch.equal(apart.items, together.items[some])


@pytest.mark.parametrize("name", ALL)
def test_shorter_lists_are_the_heads_of_longer_ones(name, fitted):
    long = full_ranking(fitted(name), 12, seen=TRAIN).items
    assert torch.equal(full_ranking(fitted(name), 4, seen=TRAIN).items, long[:, :4])


@pytest.mark.parametrize("name", ALL)
def test_it_says_how_many_users_and_items_it_knows(name, fitted):
    scorer = fitted(name)
    assert (scorer.num_users, scorer.num_items) == TRAIN.matrix.shape
    scores = scorer.scores(torch.tensor([1, 2]))
    assert scores.shape == (2, TRAIN.num_items)
    assert bool(scores.isfinite().all())


@pytest.mark.parametrize("name", ["LightGCN, BPR"])
def test_training_twice_with_one_seed_gives_the_same_scores(name, fitted):
    users = torch.arange(TRAIN.num_users)
    again = TRAINED[name](TRAIN)
    assert torch.equal(again.scores(users), fitted(name).scores(users))


@pytest.mark.parametrize(
    "name", ["MF, Bayesian, in batch", "LightGCN, BPR", "EASE", "iALS", "popularity"]
)
def test_users_and_items_that_nobody_has_seen_do_no_harm(name):
    users, items = TRAIN.pairs()
    wider = Interactions.from_pairs(
        users, items, user_ids=TRAIN.num_users + 1, item_ids=TRAIN.num_items + 1
    )
    scores = ALL[name](wider).scores(torch.arange(wider.num_users))
    assert scores.shape == wider.matrix.shape
    assert bool(scores.isfinite().all())


@pytest.mark.parametrize("name", ["EASE", "popularity"])
def test_a_closed_form_does_not_care_how_users_and_items_are_numbered(name):
    generator = np.random.default_rng(1)
    new_user = generator.permutation(TRAIN.num_users)
    new_item = generator.permutation(TRAIN.num_items)
    users, items = TRAIN.pairs()
    renamed = Interactions.from_pairs(
        new_user[users], new_item[items], user_ids=TRAIN.num_users, item_ids=TRAIN.num_items
    )
    every = torch.arange(TRAIN.num_users)
    original, moved = ALL[name](TRAIN).scores(every), ALL[name](renamed).scores(every)
    torch.testing.assert_close(moved[new_user][:, new_item], original)
