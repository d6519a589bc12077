"""Encoders of users and items. A new encoder needs a class and a row of :data:`ENCODERS`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from bayescl.functional import unit_vectors
from bayescl_lab._fields import Count, CountOr0, checked
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.propagation import MeanOverLayers, normalized_graph, propagated
from bayescl_lab.ranking.scorers import EmbeddingScorer

_INITIAL_SCALE = 0.1
"""Standard deviation of each coordinate. With cosines, it affects how fast Adam changes angles."""


class Encoder(nn.Module, ABC):
    """Encoder with one trainable embedding per user and per item. Subclasses transform them.

    Embeddings are initialized from a normal distribution by torch's global generator.

    Args:
        train: Training interactions. Every user and item has a row.
        dim: Length of an embedding.

    Attributes:
        title: Name in tables and figures.
        own_settings: Names of further arguments.

    Raises:
        ValueError: if an argument is out of range.
    """

    title: ClassVar[str]
    own_settings: ClassVar[tuple[str, ...]] = ()

    def __init__(self, train: Interactions, dim: int = 64) -> None:
        super().__init__()
        self.train_part = train
        self.num_users, self.num_items = train.num_users, train.num_items
        self.dim = checked("dim", dim, Count)
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
        """Return a scorer by the cosines of the current embeddings.

        Args:
            propagate: Number of layers of :func:`.propagated`.
            item_norm_exponent: Scores are the cosine times the item embedding's length to this
                power. Items with many pairs have longer embeddings, so larger exponents
                favor popular items.
        """
        users, items = self.users_and_items()
        if propagate:
            users, items = propagated(self.train_part, users, items, propagate)
        lengths = items.norm(dim=1, keepdim=True) ** item_norm_exponent
        return EmbeddingScorer(unit_vectors(users), unit_vectors(items) * lengths)


class MatrixFactorization(Encoder):
    """Matrix factorization: tables of users and items. A step reads only its batch's rows.

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


class LightGCN(Encoder):
    r"""LightGCN: each embedding is averaged with its neighbors in the graph, layer by layer.

    With :math:`\hat A = D^{-1/2} A D^{-1/2}` of the bipartite graph of users and items, and one
    table :math:`E_0` of all embeddings,

    .. math::
        E = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k E_0 .

    Args:
        train: Training interactions, which are the edges of the graph.
        dim: Length of an embedding.
        layers: Number of layers K. 0 is matrix factorization.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=3)
        >>> users, items = LightGCN(train, dim=4, layers=2).users_and_items()
        >>> users.shape, items.shape
        (torch.Size([2, 4]), torch.Size([3, 4]))

    Reference:
        He et al., "LightGCN: Simplifying and Powering Graph Convolution Network for
        Recommendation", SIGIR 2020, Eqs. 7 and 8.
    """

    graph: Tensor
    """Normalized adjacency matrix of users, then items, in CSR form. Symmetric."""

    title = "LightGCN"
    own_settings = ("layers",)

    def __init__(self, train: Interactions, dim: int = 64, *, layers: int = 2) -> None:
        super().__init__(train, dim)
        self.layers = checked("layers", layers, CountOr0)
        self.register_buffer("graph", normalized_graph(train), persistent=False)

    def users_and_items(self) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Propagate all embeddings; return the embeddings of users and of items."""
        table = torch.cat([self.user_table, self.item_table])
        rows: Tensor = MeanOverLayers.apply(table, self.graph, self.layers)
        users, items = rows.split([self.num_users, self.num_items])
        return users, items


ENCODERS: Mapping[str, type[Encoder]] = {"mf": MatrixFactorization, "lightgcn": LightGCN}
"""Encoders by name, in the order of tables."""
