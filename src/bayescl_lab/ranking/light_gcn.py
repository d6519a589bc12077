"""LightGCN: embeddings averaged with those of neighbours, without weights or non-linearities."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from scipy.sparse import block_array, csr_array, diags_array
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions

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
        rows: Tensor = _MeanOverLayers.apply(table, self.graph, self.layers, None)
        users, items = rows.split([self.num_users, self.num_items])
        return users, items

    def embed(
        self, users: Int[Tensor, " batch"], *items: Int[Tensor, "*shape"]
    ) -> tuple[Float[Tensor, "*shape dim"], ...]:
        """Return the embeddings for one step, and compute the last layer only for them."""
        shapes = [rows.shape for rows in (users, *items)]
        wanted = torch.cat([users.flatten(), *(self.num_users + rows.flatten() for rows in items)])
        few = wanted.is_cpu and len(wanted) <= len(self.graph) // _FEW
        if self.layers == 0 or not few:
            return super().embed(users, *items)
        nodes, place = wanted.unique(return_inverse=True)
        table = torch.cat([self.user_table, self.item_table])
        means: Tensor = _MeanOverLayers.apply(table, self.graph, self.layers, nodes)
        sets = F.embedding(place, means).split([shape.numel() for shape in shapes])
        return tuple(rows.view(*shape, -1) for rows, shape in zip(sets, shapes, strict=True))

    def extra_repr(self) -> str:
        """Show the sizes, the score and the layers."""
        return f"{super().extra_repr()}, layers={self.layers}"


def normalized_graph(train: Interactions) -> Float[Tensor, "nodes nodes"]:
    """The adjacency matrix of users and items, normalised by the degrees of both ends.

    It is sparse (CSR), symmetric and in float32, with users first.
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
    """The mean of a table and its propagations, for all nodes or for some (``[nodes]``).

    The graph is symmetric, so that gradients propagate in the same way.
    """

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, graph: Tensor, layers: int, nodes: Tensor | None
    ) -> Tensor:
        ctx.graph, ctx.layers, ctx.nodes = graph, layers, nodes
        layer, total = table, table.clone() if nodes is None else table[nodes]
        for number in range(layers):
            few = nodes if number == layers - 1 else None
            layer = _propagated(graph, layer, few)
            total += layer if nodes is few else layer[nodes]
        return total.div_(layers + 1)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.nodes is None:
            share = _MeanOverLayers.apply(upstream, ctx.graph, ctx.layers, None)
            return share, None, None, None
        share = upstream / (ctx.layers + 1)
        whole = share.new_zeros(len(ctx.graph), share.shape[1])
        whole[ctx.nodes] = share
        for _ in range(ctx.layers):  # Horner's rule for the sum over powers of the graph
            whole = _propagated(ctx.graph, whole)
            whole.index_add_(0, ctx.nodes, share)
        return whole, None, None, None


def _propagated(graph: Tensor, table: Tensor, nodes: Tensor | None = None) -> Tensor:
    """The product of the graph with a table, or some rows of it."""
    if nodes is None and not table.is_cpu:
        return graph @ table
    starts, columns, weights = graph.crow_indices(), graph.col_indices(), graph.values()
    if nodes is not None:
        first = starts[nodes].long()
        counts = starts[nodes + 1] - first
        ends = counts.cumsum(0)
        edges = torch.arange(int(ends[-1]), device=table.device)
        edges += (first - ends + counts).repeat_interleave(counts, output_size=len(edges))
        columns, weights = columns[edges], weights[edges]
        starts = F.pad(ends, (1, 0)).to(columns.dtype)
    # Sums of weighted rows: on the CPU the operation made for them takes a third of the time that
    # the product of a sparse with a dense matrix does.
    return F.embedding_bag(
        columns, table, starts, mode="sum", per_sample_weights=weights, include_last_offset=True
    )
