"""iALS against its objective and a dense solution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions

GENERATOR = np.random.default_rng(0)
CHOSEN = np.argwhere(GENERATOR.random((30, 20)) < 0.25)
CHOSEN = CHOSEN[(CHOSEN[:, 0] != 7) & (CHOSEN[:, 1] != 3)]  # a user and an item without any
TRAIN = Interactions.from_pairs(*CHOSEN.T, user_ids=30, item_ids=20)
LIKED = torch.from_numpy(TRAIN.matrix.toarray()).double()


def objective(users: torch.Tensor, items: torch.Tensor, exponent: float) -> torch.Tensor:
    """The paper's objective, pair by pair, at a penalty of 0.05 and a weight of 0.2."""
    predicted = users @ items.T
    observed = (LIKED * (predicted - 1) ** 2).sum()
    everywhere = 0.2 * (predicted**2).sum()
    of_user = (LIKED.sum(1) + 0.2 * LIKED.shape[1]) ** exponent
    of_item = (LIKED.sum(0) + 0.2 * LIKED.shape[0]) ** exponent
    lengths = of_user @ (users**2).sum(1) + of_item @ (items**2).sum(1)
    return observed + everywhere + 0.05 * lengths


def fit(exponent: float = 1.0, **options: int) -> IALS:
    return IALS(
        TRAIN,
        dim=4,
        regularization=0.05,
        unobserved_weight=0.2,
        frequency_exponent=exponent,
        **options,
    )


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_the_objective_has_no_slope_where_the_epochs_end(exponent):
    model = fit(exponent, epochs=400)
    users, items = (rows.double().requires_grad_() for rows in (model.users, model.items))
    slopes = torch.autograd.grad(objective(users, items, exponent), (users, items))
    for slope in slopes:
        torch.testing.assert_close(slope, torch.zeros_like(slope), atol=2e-3, rtol=0)
    assert float(objective(users, items, exponent).detach()) < 0.8 * float(LIKED.sum())


def test_users_are_the_dense_solution_given_the_items():
    model = fit(epochs=3)
    items = model.items.double()
    for user, liked in enumerate(LIKED):
        penalty = 0.05 * (liked.sum() + 0.2 * len(liked)) * torch.eye(4)
        system = items.T @ torch.diag(0.2 + liked) @ items + penalty
        expected = torch.linalg.solve(system, items.T @ liked)
        torch.testing.assert_close(model.users[user].double(), expected, atol=1e-5, rtol=1e-4)


def test_blocks_do_not_matter(monkeypatch):
    whole = fit(epochs=2)
    monkeypatch.setattr("bayescl_lab.ranking.ials._BLOCK_ENTRIES", 100)
    torch.testing.assert_close(fit(epochs=2).items, whole.items, atol=1e-6, rtol=1e-4)


def test_the_seed_decides():
    one, again, other = fit(), fit(), fit(seed=1)
    assert torch.equal(one.users, again.users)
    assert not torch.equal(one.users, other.users)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 0}, "dim must be a whole number of at least 1"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"regularization": 0.0}, "regularization must be positive"),
        ({"unobserved_weight": 0.0}, "unobserved_weight must be positive"),
        ({"frequency_exponent": -1.0}, "frequency_exponent must be"),
        ({"initial_scale": 0.0}, "initial_scale must be positive"),
        ({"regularization": 1e-30}, "regularization 1e-30 is too small for float32"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        IALS(TRAIN, **options)
