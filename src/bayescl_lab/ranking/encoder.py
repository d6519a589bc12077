"""The base of encoders of users and items."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice, check_count, check_positive
from bayescl_lab.ranking.scorers import SCORES, EmbeddingScorer, Score


class Encoder(nn.Module, ABC):
    """One trainable embedding per user and per item, to be transformed by subclasses.

    Embeddings are initialised from a normal distribution by torch's global generator.

    Args:
        num_users: rows of the users' table.
        num_items: rows of the items' table.
        dim: coordinates of an embedding.
        score: score of rankings, ``"cosine"`` or ``"inner"`` for inner products. The loss must
            match: ``normalize=True`` for cosines.
        initial_scale: initial standard deviation of each coordinate. With cosines only the
            direction of an embedding counts; its length determines how fast Adam turns it.

    Raises:
        ValueError: if an argument is out of range.
    """

    def __init__(
        self,
        num_users: int,
        num_items: int,
        dim: int = 64,
        *,
        score: Score = "cosine",
        initial_scale: float = 0.1,
    ) -> None:
        super().__init__()
        check_choice("score", score, SCORES)
        self.num_users = check_count("num_users", num_users, 1)
        self.num_items = check_count("num_items", num_items, 1)
        self.dim = check_count("dim", dim, 1)
        self.score = score
        scale = check_positive("initial_scale", initial_scale)
        self.user_table = nn.Parameter(torch.randn(num_users, dim) * scale)
        self.item_table = nn.Parameter(torch.randn(num_items, dim) * scale)

    @abstractmethod
    def users_and_items(
        self,
    ) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Return the embeddings of all users and of all items. Differentiable."""

    def embed(
        self, users: Int[Tensor, " batch"], *items: Int[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape dim"], ...]:
        """Return the embeddings for one step: of its users, and of each set of items.

        Args:
            users: rows of users.
            *items: rows of items, in tensors of any shape.

        Returns:
            One tensor per argument, with ``dim`` as an additional last axis. Differentiable.
        """
        all_users, all_items = self.users_and_items()
        return (all_users[users], *(all_items[rows] for rows in items))

    @torch.no_grad()
    def scorer(self, *, item_norm_exponent: float = 0.0) -> EmbeddingScorer:
        """Return a scorer of the current embeddings.

        Args:
            item_norm_exponent: see :class:`~bayescl_lab.ranking.scorers.EmbeddingScorer`.
        """
        return EmbeddingScorer(
            *self.users_and_items(), self.score, item_norm_exponent=item_norm_exponent
        )

    def extra_repr(self) -> str:
        """Show the sizes and the score."""
        return f"{self.num_users} users, {self.num_items} items, dim={self.dim}, {self.score!r}"
