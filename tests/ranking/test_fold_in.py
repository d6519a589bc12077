"""Users who were not there in training."""

from __future__ import annotations

import numpy as np
import torch

from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.fold_in import NewcomerScorer
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import EmbeddingScorer, Popularity

GENERATOR = np.random.default_rng(0)
CHOSEN = np.argwhere(GENERATOR.random((40, 25)) < 0.3)
CHOSEN = CHOSEN[(CHOSEN[:, 0] != 7) & (CHOSEN[:, 1] != 3)]  # a user and an item without any
TRAIN = Interactions.from_pairs(*CHOSEN.T, user_ids=40, item_ids=25)
ITEMS = torch.from_numpy(GENERATOR.normal(size=(25, 4))).float()


def means() -> torch.Tensor:
    rows = torch.from_numpy(TRAIN.matrix.toarray())
    return rows @ ITEMS / rows.sum(dim=1, keepdim=True).clamp(min=1)


def test_users_that_are_a_linear_map_of_their_items_are_found_again():
    turned = means() @ torch.tensor(GENERATOR.normal(size=(4, 4))).float()
    newcomers = NewcomerScorer(EmbeddingScorer(turned, ITEMS, "inner"), TRAIN)
    own = torch.from_numpy(TRAIN.matrix[[5]].indices)
    length = turned[np.arange(40) != 7].norm(dim=1).mean()
    expected = length * turned[5] / turned[5].norm()
    torch.testing.assert_close(newcomers.embedding(own), expected, rtol=0.05, atol=0.05)
    torch.testing.assert_close(newcomers.scores_from(own), ITEMS @ newcomers.embedding(own))


def test_the_map_is_that_of_ridge_regression():
    users = torch.from_numpy(GENERATOR.normal(size=(40, 4))).float()
    newcomers = NewcomerScorer(EmbeddingScorer(users, ITEMS, "inner"), TRAIN)
    there = np.arange(40) != 7
    known, wanted = means()[there].double().numpy(), users[there].double().numpy()
    penalty = 0.01 * np.mean(np.sum(known**2, axis=0))
    expected = np.linalg.solve(known.T @ known + penalty * np.eye(4), known.T @ wanted)
    np.testing.assert_allclose(newcomers.map.numpy(), expected, atol=1e-4)


def test_order_of_items_and_the_users_own_rows_do_not_matter():
    users = torch.from_numpy(GENERATOR.normal(size=(40, 4))).float()
    one = NewcomerScorer(EmbeddingScorer(users, ITEMS, "inner"), TRAIN)
    users[7] = 1e6  # nobody learns from somebody without interactions
    other = NewcomerScorer(EmbeddingScorer(users, ITEMS, "inner"), TRAIN)
    torch.testing.assert_close(
        one.scores_from(torch.tensor([1, 8])), other.scores_from(torch.tensor([8, 1]))
    )


def test_vectors_of_zeros_give_finite_scores():
    scorer = EmbeddingScorer(torch.zeros(40, 4), torch.zeros(25, 4), "inner")
    assert NewcomerScorer(scorer, TRAIN).scores_from(torch.tensor([1])).isfinite().all()


def test_baselines_score_a_newcomer_as_a_user_with_those_items():
    user = 5
    own = torch.from_numpy(TRAIN.matrix[[user]].indices.astype(np.int64))
    for baseline in (EASE(TRAIN, 3.0), IALS(TRAIN, dim=4), Popularity(TRAIN)):
        torch.testing.assert_close(
            baseline.scores_from(own), baseline.scores(torch.tensor([user]))[0]
        )


def test_ease_in_blocks_is_ease(monkeypatch):
    whole = EASE(TRAIN, 3.0).weights
    monkeypatch.setattr("bayescl_lab.ranking.ease._BLOCK_ENTRIES", 25 * 4)
    monkeypatch.setattr("bayescl_lab.ranking.ease._PIVOT_ROWS", 7)
    np.testing.assert_allclose(EASE(TRAIN, 3.0).weights, whole, atol=1e-6)
    rows = TRAIN.matrix.toarray().astype(np.float64)
    inverse = np.linalg.inv(rows.T @ rows + 3.0 * np.eye(25))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(whole, expected, atol=1e-6)
