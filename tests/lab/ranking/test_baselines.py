"""EASE and iALS against dense solutions."""

import numpy as np
import pytest
import torch

from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions

GENERATOR = np.random.default_rng(0)
CHOSEN = np.argwhere(GENERATOR.random((40, 25)) < 0.3)
CHOSEN = CHOSEN[(CHOSEN[:, 0] != 7) & (CHOSEN[:, 1] != 3)]  # a user and an item without any
TRAIN = Interactions.from_pairs(*CHOSEN.T, user_ids=40, item_ids=25)
LIKED = torch.from_numpy(TRAIN.matrix.toarray()).double()


def test_ease_is_the_inverse_of_the_gram_matrix():
    inverse = np.linalg.inv((LIKED.T @ LIKED).numpy() + 3.0 * np.eye(25))
    expected = -inverse / np.diag(inverse)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(EASE(TRAIN, 3.0).weights, expected, atol=1e-6)


def test_ease_is_refused_where_memory_or_the_penalty_does_not_suffice(monkeypatch):
    # Two items that always go together: without a penalty their Gram matrix is singular.
    twins = Interactions.from_pairs([0, 0], [0, 1], user_ids=1, item_ids=2)
    for penalty, message in ((1e-17, "1e-17 is too small to invert"), (0.0, "must be above 0")):
        with pytest.raises(ValueError, match=f"regularization {message}"):
            EASE(twins, penalty)
    monkeypatch.setattr("bayescl_lab.ranking.ease.MOST_ITEMS", 24)
    with pytest.raises(ValueError, match="it takes at most 24 items, got 25"):
        EASE(TRAIN, 2.0)


def objective(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    """That of the paper of iALS, pair by pair, at a penalty of 0.05 and a weight of 0.2."""
    predicted = users @ items.T
    observed = (LIKED * (predicted - 1) ** 2).sum()
    everywhere = 0.2 * (predicted**2).sum()
    of_user = LIKED.sum(1) + 0.2 * LIKED.shape[1]
    of_item = LIKED.sum(0) + 0.2 * LIKED.shape[0]
    lengths = of_user @ (users**2).sum(1) + of_item @ (items**2).sum(1)
    return observed + everywhere + 0.05 * lengths


def fit_ials(**options: int) -> IALS:
    return IALS(TRAIN, dim=4, regularization=0.05, unobserved_weight=0.2, **options)


def test_the_objective_of_ials_has_no_slope_where_the_epochs_end():
    model = fit_ials(epochs=400)
    users, items = (rows.double().requires_grad_() for rows in (model.users, model.items))
    slopes = torch.autograd.grad(objective(users, items), (users, items))
    for slope in slopes:
        torch.testing.assert_close(slope, torch.zeros_like(slope), atol=2e-3, rtol=0)
    assert float(objective(users, items).detach()) < 0.8 * float(LIKED.sum())


def test_users_of_ials_are_the_dense_solution_given_the_items_in_blocks_too(monkeypatch):
    model = fit_ials(epochs=3)
    items = model.items.double()
    for user, liked in enumerate(LIKED):
        penalty = 0.05 * (liked.sum() + 0.2 * len(liked)) * torch.eye(4)
        system = items.T @ torch.diag(0.2 + liked) @ items + penalty
        expected = torch.linalg.solve(system, items.T @ liked)
        torch.testing.assert_close(model.users[user].double(), expected, atol=1e-5, rtol=1e-4)
    monkeypatch.setattr("bayescl_lab.ranking.ials._BLOCK_ENTRIES", 100)
    torch.testing.assert_close(fit_ials(epochs=3).items, model.items, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim must be at least 1"),
        ({"unobserved_weight": 0.0}, "unobserved_weight must be above 0"),
        ({"regularization": 1e-30}, "regularization 1e-30 is too small for float32"),
    ],
)
def test_bad_settings_of_ials_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        IALS(TRAIN, **options)
