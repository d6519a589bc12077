"""The interface of recommenders, and scorers by embeddings and by popularity."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bayescl_lab.ranking.interactions import Interactions


class Scorer(Protocol):
    """Model that scores all items for users. Higher is better."""

    num_users: int
    num_items: int

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return scores of all items. The caller may overwrite them."""
        ...


class EmbeddingScorer:
    """Inner products of embeddings as scores. With rows of length 1, they are cosines.

    Args:
        users: One row per user.
        items: One row per item.

    Example:
        >>> scorer = EmbeddingScorer(torch.eye(2), torch.tensor([[2.0, 0.0], [3.0, 3.0]]))
        >>> scorer.scores(torch.tensor([0]))
        tensor([[2., 3.]])
    """

    def __init__(
        self, users: Float[Tensor, "users dim"], items: Float[Tensor, "items dim"]
    ) -> None:
        self.users, self.items = users.detach(), items.detach()
        self.num_users, self.num_items = len(users), len(items)

    @torch.no_grad()
    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users."""
        return self.users[users.to(self.users.device)] @ self.items.T


class Popularity:
    """Popularity: the score of an item is its number of users in training."""

    def __init__(self, train: Interactions) -> None:
        self.num_users, self.num_items = train.num_users, train.num_items
        counts = np.bincount(train.matrix.indices, minlength=train.num_items)
        self.counts = torch.from_numpy(counts).float()

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the same counts for each user."""
        return self.counts.repeat(len(users), 1)


class ServedScorer:
    """Scores for evaluation and serving, with popularity for users without training items.

    Users without interactions in training get the popularity of the items. Items without
    interactions in training are never listed.

    Args:
        scorer: Trained model.
        train: Training interactions of the model.

    Attributes:
        is_new: True for users without interactions in training.
        left_out: True for items that are never listed.
    """

    def __init__(self, scorer: Scorer, train: Interactions) -> None:
        self.scorer, self.popularity = scorer, Popularity(train).counts
        self.num_users, self.num_items = scorer.num_users, scorer.num_items
        self.is_new = torch.from_numpy(np.diff(train.matrix.indptr) == 0)
        self.left_out = self.popularity == 0

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users."""
        scores = self.scorer.scores(users)
        scores[self.is_new[users].to(scores.device)] = self.popularity.to(scores)
        scores[:, self.left_out.to(scores.device)] = -torch.inf
        return scores
