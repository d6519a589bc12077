"""GF-CF: a filter over the graph of users and items, without training."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import svds

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_non_negative
from bayescl_lab.ranking.interactions import Interactions


class GraphFilter:
    r"""Score items by two linear filters of a user's items, with no parameters to train.

    With the interactions :math:`X`, degrees :math:`D_U` and :math:`D_I`, the normalised
    :math:`R = D_U^{-1/2} X D_I^{-1/2}`, and its leading right singular vectors :math:`V`,

    .. math::
        \text{scores} = X \bigl( R^T R + w\, D_I^{-1/2} V V^T D_I^{1/2} \bigr) .

    Args:
        train: the interactions of the graph.
        dim: number of singular vectors, at least 1; fewer if the graph is small.
        ideal_weight: weight w of the second filter, non-negative.

    Raises:
        ValueError: if a number is out of its range.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1, 2], [0, 1, 1, 2], user_ids=3, item_ids=3)
        >>> GraphFilter(train, dim=1, ideal_weight=0.0).scores(torch.tensor([1]))
        tensor([[0.3536, 0.7500, 0.0000]])

    Reference:
        Shen et al., "How Powerful is Graph Convolution for Recommendation?", CIKM 2021.
    """

    def __init__(self, train: Interactions, *, dim: int = 256, ideal_weight: float = 0.3) -> None:
        check_count("dim", dim, 1)
        self.num_users, self.num_items = shape = train.matrix.shape
        self.matrix, self.weight = train.matrix, check_non_negative("ideal_weight", ideal_weight)
        degrees = [np.maximum(np.asarray(self.matrix.sum(axis=axis)), 1) for axis in (1, 0)]
        by_user, self.by_item = (np.sqrt(degree).ravel() for degree in degrees)
        half = diags_array(1 / by_user) @ self.matrix @ diags_array(1 / self.by_item)
        self.half = csr_array(half, dtype=np.float32)
        start = np.random.default_rng(0).normal(size=min(shape))
        _, _, self.vectors = svds(self.half, k=max(1, min(dim, *shape) - 1), v0=start)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return self._filtered(self.matrix[users.numpy()])

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the scores of all items for somebody with some items."""
        row = np.zeros((1, self.num_items), dtype=np.float32)
        row[0, items.numpy()] = 1
        return self._filtered(csr_array(row))[0]

    def _filtered(self, rows: csr_array) -> Float[Tensor, "block items"]:
        linear = ((rows @ self.half.T) @ self.half).toarray()
        ideal = (rows.multiply(1 / self.by_item).tocsr() @ self.vectors.T) @ self.vectors
        scores = linear + self.weight * ideal * self.by_item
        return torch.from_numpy(scores.astype(np.float32))
