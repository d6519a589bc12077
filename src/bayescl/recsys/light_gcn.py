"""LightGCN: embeddings averaged with those of neighbours, without weights or non-linearities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy.sparse import block_array, csr_array, diags_array

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count
from bayescl.recsys.encoder import Encoder
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.scorers import Score


class LightGCN(Encoder):
    r"""Embeddings of a user are averaged with those of its items, theirs with their users', etc.

    With :math:`\hat A = D^{-1/2} A D^{-1/2}` of the bipartite graph of users and items, and one
    table :math:`E_0` of all embeddings,

    .. math::
        E = \frac{1}{K + 1} \sum_{k=0}^{K} \hat A^k E_0 .

    All embeddings are propagated once per step, however many rows the step then reads.

    Args:
        train: the interactions that make the graph; those to judge by must not be among them.
        dim: coordinates of an embedding.
        layers: the number K of steps over the graph; 0 is matrix factorisation.
        score: ``"cosine"``, or ``"inner"`` for inner products.
        initial_scale: standard deviation of each coordinate at the start.

    Raises:
        ValueError: if an argument leaves its range.

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

    def __init__(
        self,
        train: Interactions,
        dim: int = 64,
        *,
        layers: int = 2,
        score: Score = "cosine",
        initial_scale: float = 0.1,
    ) -> None:
        super().__init__(
            train.num_users, train.num_items, dim, score=score, initial_scale=initial_scale
        )
        self.layers = check_count("layers", layers, 0)
        self.register_buffer("graph", normalized_graph(train), persistent=False)

    def users_and_items(
        self,
    ) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
        """Propagate all embeddings and return those of users and of items."""
        table = torch.cat([self.user_table, self.item_table])
        rows: Tensor = _MeanOverLayers.apply(table, self.graph, self.layers)
        users, items = rows.split([self.num_users, self.num_items])
        return users, items

    def extra_repr(self) -> str:
        """Show the sizes, the score and the layers."""
        return f"{super().extra_repr()}, layers={self.layers}"


def normalized_graph(train: Interactions) -> Float[Tensor, "nodes nodes"]:
    """The adjacency matrix of users and items, each entry over the root of both ends' degrees.

    Args:
        train: the edges. A user or item without any keeps an empty row.

    Returns:
        A sparse CSR tensor in float32, users first; symmetric.

    Example:
        >>> train = Interactions.from_pairs([0, 0], [0, 1], user_ids=1, item_ids=2)
        >>> normalized_graph(train).to_dense()
        tensor([[0.0000, 0.7071, 0.7071],
                [0.7071, 0.0000, 0.0000],
                [0.7071, 0.0000, 0.0000]])
    """
    edges = csr_array(train.matrix, dtype=np.float64)
    ends = [np.asarray(edges.sum(axis=axis)).ravel() for axis in (1, 0)]
    by_user, by_item = (diags_array(1 / np.sqrt(np.maximum(degree, 1))) for degree in ends)
    half = by_user @ edges @ by_item
    whole = csr_array(block_array([[None, half], [half.T, None]], format="csr"))
    whole.sort_indices()
    with warnings.catch_warnings():
        # Torch announces once per process that CSR tensors may still change.
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            torch.from_numpy(whole.indptr.astype(np.int32)),
            torch.from_numpy(whole.indices.astype(np.int32)),
            torch.from_numpy(whole.data.astype(np.float32)),
            size=whole.shape,
            check_invariants=True,
        )


class _MeanOverLayers(torch.autograd.Function):
    """The mean of a table and its propagations; the graph is symmetric, so backward is the same."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, graph: Tensor, layers: int) -> Tensor:
        ctx.graph, ctx.layers = graph, layers
        return _mean_over_layers(table, graph, layers)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        return _mean_over_layers(upstream, ctx.graph, ctx.layers), None, None


def _mean_over_layers(table: Tensor, graph: Tensor, layers: int) -> Tensor:
    total = layer = table
    for _ in range(layers):
        layer = graph @ layer
        total = total + layer
    return total / (layers + 1)
