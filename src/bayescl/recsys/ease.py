"""EASE: a linear model of items from items, in closed form."""

from __future__ import annotations

import os

import numpy as np
import torch
from scipy import linalg

from bayescl._axes import Float, Int, Tensor
from bayescl._checks import check_positive
from bayescl.recsys.interactions import Interactions


class EASE:
    r"""Predict each item from the user's other items, by ridge regression.

    With the matrix :math:`X` of users and items, and :math:`P = (X^T X + \lambda I)^{-1}`,

    .. math::
        B_{ij} = -P_{ij} / P_{jj}, \quad B_{jj} = 0, \qquad \text{scores} = X B .

    Args:
        train: the interactions to learn from.
        regularization: the penalty lambda, positive.
        memory: bytes that the fit may use; default: half of the machine's memory.

    Raises:
        ValueError: if ``regularization`` is not positive, or the model would not fit ``memory``:
            it is a matrix of items times items.

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
        needed = 3 * 8 * items**2  # the Gram matrix in float64, its inverse, a working copy
        allowed = _half_of_memory() if memory is None else memory
        if needed > allowed:
            raise ValueError(
                f"EASE of {items} items needs {needed / 2**30:.1f} GiB, "
                f"more than the {allowed / 2**30:.1f} GiB that it may use"
            )
        self.matrix = train.matrix
        gram = (train.matrix.T @ train.matrix).toarray().astype(np.float64)
        gram[np.diag_indices(items)] += regularization
        # Positive definite by the penalty: the Cholesky factor gives the inverse's lower half.
        factor, _ = linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
        inverse, _ = linalg.lapack.dpotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        self.weights = (inverse / -np.diag(inverse)).astype(np.float32)
        np.fill_diagonal(self.weights, 0)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return torch.from_numpy(self.matrix[users.numpy()] @ self.weights)


def _half_of_memory() -> int:
    """Half of the machine's memory in bytes, 8 GiB where it cannot be known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 2**33
