"""LightGCN: embeddings averaged with those of neighbours, without weights or non-linearities."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.propagation import MeanOverLayers, normalized_graph

_FEW = 4
"""On the CPU, a step that reads at most one node in this many computes the last layer only for
these."""


class LightGCN(Encoder):
    r"""Average each embedding with those of its neighbours in the graph, layer by layer.

    With :math:`\hat A = D^{-1/2} A D^{-1/2}` of the bipartite graph of users and items, and one
    table :math:`E_0` of all embeddings,

    .. math::
        E = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k E_0 .

    A step propagates all embeddings except in the last layer, which is computed only for the rows
    that the step reads.

    Args:
        train: the interactions of the graph, without those to evaluate on.
        dim: coordinates of an embedding.
        layers: the number of layers K; 0 is matrix factorisation.
        **options: of every :class:`~bayescl_lab.ranking.encoder.Encoder`.

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
    """The normalised adjacency matrix of users, then items, in CSR form; symmetric."""

    title = "LightGCN"
    own_settings = ("layers",)

    def __init__(
        self, train: Interactions, dim: int = 64, *, layers: int = 2, **options: Any
    ) -> None:
        super().__init__(train, dim, **options)
        self.layers = check_count("layers", layers, 0)
        self.register_buffer("graph", normalized_graph(train), persistent=False)

    def users_and_items(self) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Propagate all embeddings and return those of users and of items."""
        table = torch.cat([self.user_table, self.item_table])
        rows: Tensor = MeanOverLayers.apply(table, self.graph, self.layers, None)
        users, items = rows.split([self.num_users, self.num_items])
        return users, items

    def embed(
        self, users: Int[Tensor, " users"], *items: Int[Tensor, " items"]
    ) -> tuple[Float[Tensor, "rows dim"], ...]:
        """Return the embeddings for one step, and compute the last layer only for them."""
        wanted = torch.cat([users, *(self.num_users + rows for rows in items)])
        few = wanted.is_cpu and len(wanted) <= len(self.graph) // _FEW
        if self.layers == 0 or not items or not few:
            return super().embed(users, *items)
        nodes, place = wanted.unique(return_inverse=True)
        table = torch.cat([self.user_table, self.item_table])
        means: Tensor = MeanOverLayers.apply(table, self.graph, self.layers, nodes)
        rows: tuple[Tensor, ...] = F.embedding(place, means).split(
            [len(part) for part in (users, *items)]
        )
        return rows

    def extra_repr(self) -> str:
        """Show the sizes, the score and the layers."""
        return f"{super().extra_repr()}, layers={self.layers}"
