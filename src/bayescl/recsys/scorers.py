"""What every recommender offers: the scores of all items for some users."""

from __future__ import annotations

from typing import Literal, Protocol

import torch

from bayescl._axes import Float, Int, Tensor
from bayescl._checks import check_choice, check_floating, check_shape
from bayescl.functional.similarity import unit_vectors

Score = Literal["cosine", "inner"]
"""How two embeddings make a score: by their angle alone, or by their inner product."""

SCORES: tuple[Score, ...] = ("cosine", "inner")


class Scorer(Protocol):
    """Anything that scores every item for some users; higher is better."""

    num_users: int
    num_items: int

    def scores(self, users: Int[Tensor, "block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users.

        The caller may overwrite what it receives.
        """
        ...


class EmbeddingScorer:
    """Scores from embeddings of users and items.

    Args:
        users: one row per user.
        items: one row per item.
        score: ``"cosine"``, or ``"inner"`` for the inner product.

    Raises:
        ValueError: if the shapes do not fit together.

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
    ) -> None:
        check_choice("score", score, SCORES)
        for name, rows in (("users", users), ("items", items)):
            check_floating(name, rows)
        check_shape("users", users, ("users", "dim"))
        check_shape("items", items, ("items", users.shape[1]))
        users, items = users.detach(), items.detach()
        if score == "cosine":
            users, items = unit_vectors(users), unit_vectors(items)
        self.score = score
        self.users = users
        self.items = items
        self.num_users = len(users)
        self.num_items = len(items)

    @torch.no_grad()
    def scores(self, users: Int[Tensor, "block"]) -> Float[Tensor, "block items"]:
        """Return the score of every item for each of some users."""
        return self.users[users.to(self.users.device)] @ self.items.T
