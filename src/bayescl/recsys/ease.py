"""EASE: a linear model of items from items, in closed form."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg

from bayescl._axes import Float, Int, Tensor
from bayescl._checks import check_positive
from bayescl.recsys.interactions import Interactions

_BLOCK_ENTRIES = 2**22
"""Entries of the matrix computed at a time."""


class EASE:
    r"""Predict each item from the user's other items, by ridge regression.

    With the matrix :math:`X` of users and items, and :math:`P = (X^T X + \lambda I)^{-1}`,

    .. math::
        B_{ij} = -P_{ij} / P_{jj}, \quad B_{jj} = 0, \qquad \text{scores} = X B .

    Args:
        train: the interactions to learn from.
        regularization: the penalty lambda, positive.
        memory: number of bytes that the fit may use; default: half of the machine's memory.

    Raises:
        ValueError: if ``regularization`` is not positive, or the model, a matrix of items times
            items, does not fit into ``memory``.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 1], user_ids=2, item_ids=3)
        >>> EASE(train, regularization=1.0).scores(torch.tensor([1]))
        tensor([[0.3333, 0.0000, 0.0000]])

    Reference:
        Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019.
    """

    def __init__(
        self, train: Interactions, regularization: float = 300.0, *, memory: int | None = None
    ) -> None:
        self.regularization = check_positive("regularization", regularization)
        self.num_users = train.num_users
        self.num_items = items = train.num_items
        needed = ease_memory(items)
        allowed = _half_of_memory() if memory is None else memory
        if needed > allowed:
            raise ValueError(
                f"EASE of {items} items needs {needed / 2**30:.1f} GiB, "
                f"more than the {allowed / 2**30:.1f} GiB that it may use"
            )
        self.matrix = train.matrix
        inverse = _inverse_gram(train, regularization)
        diagonal = np.diag(inverse).copy()
        self.weights = np.empty((items, items), dtype=np.float32)
        for rows in _blocks(items):
            self.weights[rows] = inverse[rows] / -diagonal
        np.fill_diagonal(self.weights, 0)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return torch.from_numpy(self.matrix[users.numpy()] @ self.weights)

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the scores of all items for somebody with some items."""
        return torch.from_numpy(self.weights[items.numpy()].sum(axis=0))


def ease_memory(items: int) -> int:
    """Bytes that a fit needs: the Gram matrix in float64, inverted in place, and the weights."""
    return (8 + 4) * items**2


def _inverse_gram(train: Interactions, regularization: float) -> NDArray[np.float64]:
    """The inverse of the regularised Gram matrix; one matrix is all that is ever held."""
    items = train.num_items
    gram = np.empty((items, items))
    by_item = train.matrix.T.tocsr()
    for rows in _blocks(items):
        gram[rows] = (by_item[rows] @ train.matrix).toarray()
    gram[np.diag_indices(items)] += regularization
    # Positive definite by the penalty: the Cholesky factor gives the inverse's lower half, in
    # columns, which is the upper half in rows.
    factor, _ = linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
    linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
    for rows in _blocks(items):
        corner = np.triu(gram[rows, rows])
        gram[rows, rows] = corner + np.triu(corner, 1).T
        gram[rows.stop :, rows] = gram[rows, rows.stop :].T
    return gram


def _blocks(items: int) -> Iterator[slice]:
    """Rows of a square matrix, in blocks that are small beside it."""
    size = max(1, _BLOCK_ENTRIES // items)
    for start in range(0, items, size):
        yield slice(start, min(start + size, items))


def _half_of_memory() -> int:
    """Half of the machine's memory in bytes; 8 GiB if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 2**33
