"""iALS: matrix factorization by alternating least squares over all pairs of users and items.

Its penalty depends on the frequency of users and items, which Rendle et al. find necessary for
competitive results. The package ``implicit`` has the same algorithm without this dependence.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse import csr_array
from torch import Tensor

from bayescl_lab._fields import Count, Positive, checked
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import EmbeddingScorer

_INITIAL_LENGTH = 0.1  # approximate length of an initial user embedding
_BLOCK_ENTRIES = 2**22  # entries of embeddings or matrices per block of rows


class IALS(EmbeddingScorer):
    r"""Fit inner products of embeddings to 1 for interactions, and weakly to 0 for all pairs.

    With the interactions :math:`S`, and their numbers :math:`n_u` and :math:`n_i` for a user and an
    item, the embeddings :math:`w_u` and :math:`h_i` minimize

    .. math::
        \sum_{(u, i) \in S} (w_u^T h_i - 1)^2 + \alpha_0 \sum_u \sum_i (w_u^T h_i)^2
        + \lambda \Big( \sum_u (n_u + \alpha_0 |I|) \|w_u\|^2
        + \sum_i (n_i + \alpha_0 |U|) \|h_i\|^2 \Big) .

    Given the users, each item is the solution of a linear system of size ``dim``, and vice versa.
    An epoch solves for all items and then for all users. Memory grows with the embeddings and the
    interactions only. The same seed gives the same embeddings.

    Args:
        train: Training interactions.
        dim: Length of an embedding, at least 1.
        regularization: L2 penalty lambda, positive.
        unobserved_weight: Weight alpha_0 of every pair of a user and an item, positive.
            Interactions have an additional weight of 1.
        epochs: Number of epochs, at least 1.
        seed: Seed of the initial embeddings.

    Raises:
        ValueError: if a number is out of its range, or ``regularization`` is so small that a system
            is singular in float32.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=3)
        >>> IALS(train, dim=2).scores(torch.tensor([0, 1])).round().abs()
        tensor([[1., 1., 0.],
                [0., 0., 1.]])

    Reference:
        Rendle et al., "Revisiting the Performance of iALS on Item Recommendation Benchmarks",
        RecSys 2022; after Hu et al., "Collaborative Filtering for Implicit Feedback Datasets",
        ICDM 2008.
    """

    def __init__(
        self,
        train: Interactions,
        *,
        dim: int = 64,
        regularization: float = 0.03,
        unobserved_weight: float = 0.1,
        epochs: int = 16,
        seed: int = 0,
    ) -> None:
        checked("dim", dim, Count)
        checked("epochs", epochs, Count)
        penalty = {
            "regularization": checked("regularization", regularization, Positive),
            "unobserved_weight": checked("unobserved_weight", unobserved_weight, Positive),
        }
        generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.WEIGHTS))
        users = torch.randn(train.num_users, dim, generator=generator) * _INITIAL_LENGTH / dim**0.5
        by_item = train.matrix.T.tocsr()
        for _ in range(epochs):
            items = _solved(by_item, users, **penalty)
            users = _solved(train.matrix, items, **penalty)
        super().__init__(users, items)


@torch.no_grad()
def _solved(
    interactions: csr_array,
    others: Float[Tensor, "others dim"],
    *,
    regularization: float,
    unobserved_weight: float,
) -> Float[Tensor, "rows dim"]:
    """Solve for the embeddings of all rows of a matrix, given the embeddings of its columns."""
    counts = np.diff(interactions.indptr)
    penalties = regularization * (counts + unobserved_weight * len(others))
    everywhere = unobserved_weight * others.T @ others
    padded = torch.cat([others, others.new_zeros(1, others.shape[1])])
    solved = others.new_empty(len(counts), others.shape[1])
    # Rows with the most interactions first, in blocks of similar counts and bounded memory.
    order, start = np.argsort(-counts, kind="stable"), 0
    while start < len(order):
        most, dim = int(counts[order[start]]), others.shape[1]
        rows = order[start : start + max(1, _BLOCK_ENTRIES // (max(most, dim) * dim))]
        start += len(rows)
        columns = np.full((len(rows), most), len(others), dtype=np.int64)  # padding
        columns[np.arange(most) < counts[rows, None]] = interactions[rows].indices
        observed = padded[torch.from_numpy(columns)]
        systems = observed.mT @ observed + everywhere
        systems.diagonal(dim1=1, dim2=2).add_(torch.from_numpy(penalties[rows, None]).to(others))
        factors, failed = torch.linalg.cholesky_ex(systems)
        if bool(failed.any()):
            raise ValueError(
                f"regularization {regularization:g} is too small for float32: "
                "a linear system is singular"
            )
        solved[rows] = torch.cholesky_solve(observed.sum(dim=1)[..., None], factors)[..., 0]
    return solved
