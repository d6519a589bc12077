"""The interface of recommenders, and scorers by embeddings and by popularity."""

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
"""Score of two embeddings: cosine or inner product."""

SCORES: tuple[Score, ...] = get_args(Score)


class Scorer(Protocol):
    """Model that scores all items for users. Higher is better."""

    num_users: int
    num_items: int

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return scores. The caller may overwrite them."""
        ...


class EmbeddingScorer:
    """Scores from embeddings of users and items.

    Args:
        users: One row per user.
        items: One row per item.
        score: Kind of score, ``"cosine"``, or ``"inner"`` for the inner product.
        item_norm_exponent: Exponent of the length of the item embedding, which cosines are
            multiplied by. Items with many pairs have longer embeddings, so larger exponents favor
            popular items.

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
        without: Further items to exclude.
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
