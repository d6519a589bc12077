"""Lists and exports of a run whose embeddings are propagated after training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ranking_data import OPTIONS

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.serving import Recommender
from bayescl_lab.runs.run import Kind
from bayescl_lab.runs.weights import read_weights

LAYERS, EXPONENT = 2, 0.5


@pytest.fixture
def propagated(recommender, bayescl) -> None:
    """The recommender, trained alike in ``run`` and, to be propagated, in ``smooth``."""
    ranking = f"--propagate {LAYERS} --item-norm-exponent {EXPONENT}"
    assert bayescl(f"train ranking {OPTIONS} {ranking} --out smooth").status == 0


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_hand(run: str) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings of users and items, whose products are scores, in float64 from the weights."""
    state = read_weights(RunFolder.open(Path(run), Kind.RANKING))
    users, items = (
        unit(state[f"encoder.{name}_table"].double().numpy()) for name in ("user", "item")
    )
    liked = Recommender(Path(run)).trained_on.matrix.toarray().astype(float)
    of_users, of_items = (np.maximum(liked.sum(axis=axis), 1) ** -0.5 for axis in (1, 0))
    graph = of_users[:, None] * liked * of_items
    of_layers = [(users, items)]
    for _ in range(LAYERS):
        users, items = graph @ items, graph.T @ users
        of_layers.append((users, items))
    users, items = (np.mean(part, axis=0) for part in zip(*of_layers, strict=True))
    lengths = np.linalg.norm(items, axis=1, keepdims=True)
    return unit(users), unit(items) * lengths**EXPONENT


def test_lists_and_exports_use_propagated_embeddings_of_the_same_training(bayescl, propagated):
    kinds = [read_weights(RunFolder.open(Path(run), Kind.RANKING)) for run in ("run", "smooth")]
    torch.testing.assert_close(*kinds, rtol=0, atol=0)
    assert bayescl("export smooth --to plain").status == 0
    with np.load("plain/recommender.npz", allow_pickle=False) as archive:
        exported = dict(archive)
    users, items = by_hand("smooth")
    np.testing.assert_allclose(exported["users"] @ exported["items"].T, users @ items.T, atol=1e-5)
    loaded = Recommender(Path("smooth"))
    lists = loaded.recommend(all_users=True, k=5, allow_known=True)
    expected = np.sort(users @ items.T, axis=1)[:, :-6:-1]
    scores = lists["score"].to_numpy().reshape(expected.shape)
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    one = loaded.recommend("u-4", 5, allow_known=True)
    assert one["item"].equals(lists.filter(lists["user"] == "u-4")["item"])
