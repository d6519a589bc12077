"""EASE: an item-item linear model in closed form."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import linalg
from torch import Tensor

from bayescl_lab._fields import Positive, checked
from bayescl_lab.ranking.interactions import Interactions

MOST_ITEMS = 10_000
"""Largest number of items. The matrices of 10,000 items take about 2 GB."""


class EASE:
    r"""Predict each item from the user's other items, by ridge regression.

    With the matrix :math:`X` of users and items, and :math:`P = (X^T X + \lambda I)^{-1}`,

    .. math::
        B_{ij} = -P_{ij} / P_{jj}, \quad B_{jj} = 0, \qquad \text{scores} = X B .

    Args:
        train: Training interactions.
        regularization: L2 penalty lambda, positive.

    Attributes:
        weights: Matrix B, float32, ``[items, items]``.

    Raises:
        ValueError: if ``regularization`` is not positive or too small to invert the matrix, or
            there are more than :data:`MOST_ITEMS` items.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 1], user_ids=2, item_ids=3)
        >>> EASE(train, regularization=1.0).scores(torch.tensor([1]))
        tensor([[0.3333, 0.0000, 0.0000]])

    Reference:
        Steck, "Embarrassingly Shallow Autoencoders for Sparse Data", WWW 2019.
    """

    def __init__(self, train: Interactions, regularization: float = 300.0) -> None:
        checked("regularization", regularization, Positive)
        if reason := ease_left_out(train.num_items):
            raise ValueError(reason)
        self.num_users, self.num_items = train.num_users, train.num_items
        self.matrix = train.matrix
        gram = (train.matrix.T @ train.matrix).toarray().astype(np.float64)
        gram[np.diag_indices_from(gram)] += regularization
        try:
            factor = linalg.cholesky(gram, lower=True, overwrite_a=True)
        except linalg.LinAlgError:
            raise ValueError(
                f"regularization {regularization:g} is too small to invert the Gram matrix"
            ) from None
        (invert,) = linalg.get_lapack_funcs(("potri",), (factor,))
        inverse, _ = invert(factor, lower=True)  # the lower triangle of a symmetric matrix
        below, diagonal = np.tril(inverse, -1), inverse.diagonal()
        self.weights = ((below + below.T) / -diagonal).astype(np.float32)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return torch.from_numpy(self.matrix[users.numpy()] @ self.weights)


def ease_left_out(items: int) -> str | None:
    """Return the reason to leave EASE out if there are too many items, else ``None``."""
    if items <= MOST_ITEMS:
        return None
    return f"EASE is left out: it takes at most {MOST_ITEMS:,} items, got {items:,}"
