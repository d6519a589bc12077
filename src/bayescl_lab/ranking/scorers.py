"""Recommenders as others see them, scores of all items for some users; and the simplest two."""

from __future__ import annotations

from typing import Literal, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice
from bayescl.ops.similarity import unit_vectors
from bayescl_lab.ranking.interactions import Interactions

Score = Literal["cosine", "inner"]
"""Score of two embeddings: by their angle, or by their inner product."""

SCORES: tuple[Score, ...] = get_args(Score)


class Scorer(Protocol):
    """A model that scores every item for some users; higher is better."""

    num_users: int
    num_items: int

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return scores, which the caller may overwrite."""
        ...


class EmbeddingScorer:
    """Scores from embeddings of users and items.

    Args:
        users: one row per user.
        items: one row per item.
        score: ``"cosine"``, or ``"inner"`` for the inner product.
        item_norm_exponent: cosines are multiplied by this power of the item's length. Lengths grow
            with an item's number of pairs, through training steps or LightGCN's propagation, so the
            product restores popularity, which angles learn slowly.

    Example:
        >>> scorer = EmbeddingScorer(torch.eye(2), torch.tensor([[2.0, 0.0], [3.0, 3.0]]))
        >>> scorer.scores(torch.tensor([0]))
        tensor([[1.0000, 0.7071]])
    """

    def __init__(
        self,
        users: Float[Tensor, "users dim"],
        items: Float[Tensor, "items dim"],
        score: Score = "cosine",
        *,
        item_norm_exponent: float = 0.0,
    ) -> None:
        check_choice("score", score, SCORES)
        users, items = users.detach(), items.detach()
        if score == "cosine":
            lengths = items.norm(dim=1, keepdim=True)
            users, items = unit_vectors(users), unit_vectors(items)
            if item_norm_exponent > 0:
                items = items * lengths**item_norm_exponent
        self.users, self.items = users, items
        self.num_users, self.num_items = len(users), len(items)

    @torch.no_grad()
    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users."""
        return self.users[users.to(self.users.device)] @ self.items.T


class Popularity:
    """Score every item by how many users chose it in training."""

    def __init__(self, train: Interactions) -> None:
        self.num_users, self.num_items = train.num_users, train.num_items
        counts = np.bincount(train.matrix.indices, minlength=train.num_items)
        self.counts = torch.from_numpy(counts).float()

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the same counts for each user."""
        return self.counts.repeat(len(users), 1)

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the counts for any items."""
        del items
        return self.counts.clone()


class ServedScorer:
    """Scores as lists are made from them: what a model is evaluated by and serves.

    Users without interactions in training have no embedding, so they get the popularity of the
    items. Items without interactions in training have none either, and are never listed.

    Args:
        scorer: the trained model.
        train: the interactions that it was trained on.
        without: further items to leave out.
    """

    def __init__(
        self, scorer: Scorer, train: Interactions, without: NDArray[np.int64] | tuple[()] = ()
    ) -> None:
        self.scorer, self.popularity = scorer, Popularity(train).counts
        self.num_users, self.num_items = scorer.num_users, scorer.num_items
        self.is_new = torch.from_numpy(np.diff(train.matrix.indptr) == 0)
        self.left_out = self.popularity == 0
        self.left_out[torch.as_tensor(without, dtype=torch.int64)] = True

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users."""
        scores = self.scorer.scores(users)
        scores[self.is_new[users].to(scores.device)] = self.popularity.to(scores)
        scores[:, self.left_out.to(scores.device)] = -torch.inf
        return scores
