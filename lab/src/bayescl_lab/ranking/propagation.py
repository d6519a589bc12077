"""Propagation over the graph of users and items, in training (LightGCN) or after training."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import block_array, csr_array, diags_array
from torch import Tensor
from torch.nn import functional as F

from bayescl.functional import unit_vectors
from bayescl_lab.ranking.interactions import Interactions


def normalized_graph(train: Interactions) -> Float[Tensor, "nodes nodes"]:
    """Return the adjacency matrix of users and items, normalized by the degrees of both ends.

    The matrix is sparse (CSR), symmetric and float32, with users first.
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


@torch.no_grad()
def propagated(
    train: Interactions,
    users: Float[Tensor, "users dim"],
    items: Float[Tensor, "items dim"],
    layers: int,
) -> tuple[Float[Tensor, "users dim"], Float[Tensor, "items dim"]]:
    r"""Average trained embeddings, scaled to length 1, over neighbors in the graph.

    The formula of :class:`~bayescl_lab.ranking.encoders.LightGCN` is applied once, after training.
    On sparse data, this gives much of the gain of a model that propagates in every training step,
    without the cost of that model. On dense data, it lowers the scores. Popular items get longer
    embeddings, which ``item_norm_exponent`` uses.

    Args:
        train: Interactions of the graph.
        users: One row per user.
        items: One row per item.
        layers: Number of layers K. 0 only scales.

    Example:
        >>> train = Interactions.from_pairs([0, 1], [0, 0], user_ids=2, item_ids=1)
        >>> users, items = propagated(train, torch.eye(2), torch.tensor([[1.0, 0.0]]), 1)
        >>> items
        tensor([[0.8536, 0.3536]])

    Reference:
        Zhang et al., "Do We Really Need Graph Convolution During Training? Light Post-Training
        Graph-ODE for Efficient Recommendation", CIKM 2024.
    """
    table = torch.cat([unit_vectors(users.detach()), unit_vectors(items.detach())])
    graph = normalized_graph(train).to(table.device)
    rows: Tensor = MeanOverLayers.apply(table, graph, layers)
    of_users, of_items = rows.split([len(users), len(items)])
    return of_users, of_items


class MeanOverLayers(torch.autograd.Function):
    """Mean of a table and its propagations.

    The graph is symmetric, so gradients propagate in the same way.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, graph: Tensor, layers: int) -> Tensor:
        """Propagate a table."""
        ctx.graph, ctx.layers = graph, layers
        layer, total = table, table.clone()
        for _ in range(layers):
            layer = _propagated(graph, layer)
            total += layer
        return total.div_(layers + 1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        """Propagate the gradient."""
        return MeanOverLayers.apply(upstream, ctx.graph, ctx.layers), None, None


def _propagated(graph: Tensor, table: Tensor) -> Tensor:
    """Multiply the graph with a table."""
    if not table.is_cpu:
        return graph @ table
    # Sums of weighted rows: on the CPU the operation made for them takes a third of the time that
    # the product of a sparse with a dense matrix does.
    return F.embedding_bag(
        graph.col_indices(),
        table,
        graph.crow_indices(),
        mode="sum",
        per_sample_weights=graph.values(),
        include_last_offset=True,
    )
