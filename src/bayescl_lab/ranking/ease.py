"""EASE: a linear model of items from items, in closed form."""

from __future__ import annotations

import numpy as np
import torch
from scipy import linalg

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_positive
from bayescl_lab._cores import usable_memory
from bayescl_lab.ranking.interactions import Interactions

_BLOCK_ENTRIES = 2**22  # of the matrix, worked on at a time
_MOST_ITEMS = 30_000  # OpenBLAS ends with a segmentation fault at 41,000 and two threads


class EASE:
    r"""Predict each item from the user's other items, by ridge regression.

    With the matrix :math:`X` of users and items, and :math:`P = (X^T X + \lambda I)^{-1}`,

    .. math::
        B_{ij} = -P_{ij} / P_{jj}, \quad B_{jj} = 0, \qquad \text{scores} = X B .

    The matrix is inverted in place, in float64.

    Args:
        train: Training interactions.
        regularization: L2 penalty lambda, positive.

    Attributes:
        weights: Matrix B, float32, ``[items, items]``.

    Raises:
        ValueError: if ``regularization`` is not positive or too small to invert the matrix, or the
            model, a matrix of items times items, does not fit into memory.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 1], user_ids=2, item_ids=3)
        >>> EASE(train, regularization=1.0).scores(torch.tensor([1]))
        tensor([[0.3333, 0.0000, 0.0000]])

    Reference:
        Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019.
    """

    def __init__(self, train: Interactions, regularization: float = 300.0) -> None:
        self.regularization = check_positive("regularization", regularization)
        self.num_users = train.num_users
        self.num_items = items = train.num_items
        check_ease(items)
        self.matrix = train.matrix
        inverse = np.empty((items, items), order="F")
        step = max(1, _BLOCK_ENTRIES // items)
        blocks = [slice(start, min(start + step, items)) for start in range(0, items, step)]
        by_item = train.matrix.T.tocsr()
        for rows in blocks:
            inverse[:, rows] = (by_item[rows] @ train.matrix).T.toarray()
        inverse[np.diag_indices(items)] += regularization
        try:
            factor, _ = linalg.cho_factor(inverse, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            raise ValueError(
                f"regularization {regularization:g} is too small to invert the Gram matrix"
            ) from None
        invert = linalg.get_lapack_funcs("potri", (factor,))
        inverse, _ = invert(factor, lower=True, overwrite_c=True)  # the triangle below
        diagonal = np.diag(inverse).copy()
        self.weights = np.zeros((items, items), dtype=np.float32)
        for rows in blocks:
            below = np.tril(inverse[rows, : rows.stop], rows.start - 1)  # without the diagonal
            self.weights[rows, : rows.stop] += below / -diagonal[: rows.stop]
            self.weights[: rows.stop, rows] += (below / -diagonal[rows, None]).T

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return torch.from_numpy(self.matrix[users.numpy()] @ self.weights)

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the scores of all items for a new user with some items."""
        return torch.from_numpy(self.weights[items.numpy()].sum(axis=0))


def ease_memory(items: int) -> int:
    """Return the bytes needed for a fit: the matrix in float64, and the weights."""
    return (8 + 4) * items**2


def check_ease(items: int) -> None:
    """Raise ``ValueError`` if the matrix of so many items is too large."""
    allowed = usable_memory() / 2
    if items > _MOST_ITEMS:
        raise ValueError(f"EASE takes up to {_MOST_ITEMS:,} items, got {items:,}")
    if ease_memory(items) > allowed:
        raise ValueError(
            f"EASE of {items} items needs {ease_memory(items) / 2**30:.1f} GiB, "
            f"more than the {allowed / 2**30:.1f} GiB that it may use"
        )
