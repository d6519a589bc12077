"""Matrix factorisation: one embedding per user and per item."""

from __future__ import annotations

from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import Score


class MatrixFactorization(Encoder):
    """Users and items are rows of two tables; a step uses only its own rows.

    Args:
        num_users: rows of the users' table.
        num_items: rows of the items' table.
        dim: coordinates of an embedding.
        score: ``"cosine"``, or ``"inner"`` for inner products.
        initial_scale: initial standard deviation of each coordinate.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> encoder = MatrixFactorization(num_users=3, num_items=5, dim=2)
        >>> users, items = encoder.embed(torch.tensor([0, 2]), torch.tensor([[1, 4], [0, 0]]))
        >>> users.shape, items.shape
        (torch.Size([2, 2]), torch.Size([2, 2, 2]))

    Reference:
        Koren et al., "Matrix Factorization Techniques for Recommender Systems", Computer 2009.
    """

    @classmethod
    def of(
        cls,
        train: Interactions,
        dim: int = 64,
        *,
        score: Score = "cosine",
        initial_scale: float = 0.1,
    ) -> MatrixFactorization:
        """Make tables for the users and items of some interactions."""
        return cls(train.num_users, train.num_items, dim, score=score, initial_scale=initial_scale)

    def users_and_items(
        self,
    ) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Return both tables."""
        return self.user_table, self.item_table

    def embed(
        self, users: Int[Tensor, " batch"], *items: Int[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape dim"], ...]:
        """Return the rows of the tables for one step."""
        return (
            F.embedding(users, self.user_table),
            *(F.embedding(rows, self.item_table) for rows in items),
        )
