"""Base class of encoders of users and items, and matrix factorization."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice, check_count
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.propagation import propagated
from bayescl_lab.ranking.scorers import SCORES, EmbeddingScorer, Score

_INITIAL_SCALE = 0.1
"""Standard deviation of each coordinate. With cosines, it affects how fast Adam changes angles."""


class Encoder(nn.Module, ABC):
    """Encoder with one trainable embedding per user and per item. Subclasses transform them.

    Embeddings are initialized from a normal distribution by torch's global generator.

    Args:
        train: Training interactions. Every user and item has a row.
        dim: Length of an embedding.
        score: Score of rankings, ``"cosine"`` or ``"inner"`` for inner products. The loss must have
            ``normalize=True`` for cosines and ``normalize=False`` for inner products.

    Attributes:
        title: Name in tables and figures.
        own_settings: Names of further arguments.

    Raises:
        ValueError: if an argument is out of range.
    """

    title: ClassVar[str]
    own_settings: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        train: Interactions,
        dim: int = 64,
        *,
        score: Score = "cosine",
    ) -> None:
        super().__init__()
        check_choice("score", score, SCORES)
        self.train_part = train
        self.num_users, self.num_items = train.num_users, train.num_items
        self.dim = check_count("dim", dim, 1)
        self.score = score
        self.user_table = nn.Parameter(torch.randn(self.num_users, dim) * _INITIAL_SCALE)
        self.item_table = nn.Parameter(torch.randn(self.num_items, dim) * _INITIAL_SCALE)

    @abstractmethod
    def users_and_items(self) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Return the embeddings of all users and of all items. Differentiable."""

    def embed(
        self, users: Int[Tensor, " users"], *items: Int[Tensor, " items"]
    ) -> tuple[Float[Tensor, "rows dim"], ...]:
        """Return the embeddings of the users and of each set of items of a step.

        Without sets of items, the embeddings of all items are returned. Differentiable.
        """
        all_users, all_items = self.users_and_items()
        # Indexing would add gradients in an order that differs from run to run if there are several
        # threads.
        of_users = F.embedding(users, all_users)
        if not items:
            return of_users, all_items
        # Two reads of a table would write two gradients of its size.
        read = F.embedding(torch.cat(items), all_items)
        return of_users, *read.split([len(rows) for rows in items])

    @torch.no_grad()
    def scorer(self, *, propagate: int = 0, item_norm_exponent: float = 0.0) -> EmbeddingScorer:
        """Return a scorer of the current embeddings, after propagation by some layers."""
        tables = self.users_and_items()
        if propagate:
            tables = propagated(self.train_part, *tables, propagate)
        return EmbeddingScorer(*tables, self.score, item_norm_exponent=item_norm_exponent)

    def extra_repr(self) -> str:
        """Show the sizes and the score."""
        return f"{self.num_users} users, {self.num_items} items, dim={self.dim}, {self.score!r}"


class MatrixFactorization(Encoder):
    """Matrix factorization: one table of users and one of items. A step uses only its rows.

    Example:
        >>> train = Interactions.from_pairs([0, 2], [1, 4], user_ids=3, item_ids=5)
        >>> encoder = MatrixFactorization(train, dim=2)
        >>> rows = encoder.embed(torch.tensor([0, 2]), torch.tensor([1, 4, 4]))
        >>> [list(part.shape) for part in rows]
        [[2, 2], [3, 2]]

    Reference:
        Koren et al., "Matrix Factorization Techniques for Recommender Systems", Computer 2009.
    """

    title = "matrix factorization"

    def users_and_items(self) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Return both tables."""
        return self.user_table, self.item_table
