"""LightGCN: embeddings averaged over neighbors, without weights or non-linearities."""

from __future__ import annotations

from typing import Any

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.propagation import MeanOverLayers, normalized_graph


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
        **options: Further arguments of :class:`~bayescl_lab.ranking.encoder.Encoder`.

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

    def __init__(
        self, train: Interactions, dim: int = 64, *, layers: int = 2, **options: Any
    ) -> None:
        super().__init__(train, dim, **options)
        self.layers = check_count("layers", layers, 0)
        self.register_buffer("graph", normalized_graph(train), persistent=False)

    def users_and_items(self) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Propagate all embeddings; return the embeddings of users and of items."""
        table = torch.cat([self.user_table, self.item_table])
        rows: Tensor = MeanOverLayers.apply(table, self.graph, self.layers)
        users, items = rows.split([self.num_users, self.num_items])
        return users, items

    def extra_repr(self) -> str:
        """Show the sizes, the score and the layers."""
        return f"{super().extra_repr()}, layers={self.layers}"
