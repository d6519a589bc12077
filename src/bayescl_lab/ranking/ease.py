"""EASE: a linear model of items from items, in closed form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import linalg

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_positive
from bayescl_lab._cores import usable_memory
from bayescl_lab.ranking.interactions import Interactions

Precision = Literal["float64", "float32"]
"""Floating-point type of the matrix that is inverted."""

_BLOCK_ENTRIES = 2**22  # of the Gram matrix, computed at a time
_PIVOT_ROWS = 1024  # that the inversion eliminates at a time


class EASE:
    r"""Predict each item from the user's other items, by ridge regression.

    With the matrix :math:`X` of users and items, and :math:`P = (X^T X + \lambda I)^{-1}`,

    .. math::
        B_{ij} = -P_{ij} / P_{jj}, \quad B_{jj} = 0, \qquad \text{scores} = X B .

    The matrix is inverted in float64 if that fits into half of the machine's or container's memory
    (12 bytes per entry), otherwise in float32 and in place (4 bytes per entry). On MovieLens-100k
    and on the 5,000 and 10,000 most popular items of Gowalla, with penalties from 50 to 500, scores
    differ by less than 1e-5, and Recall@20 and NDCG@20 do not differ.

    Args:
        train: the interactions to learn from.
        regularization: the penalty lambda, positive.

    Attributes:
        weights: the matrix B, float32, ``[items, items]``.
        precision: of the inverse, "float64" or "float32".

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
        self.precision, self.matrix = ease_precision(items), train.matrix
        matrix = np.empty((items, items), dtype=self.precision)
        by_item = train.matrix.T.tocsr()
        for rows in _blocks(items, _BLOCK_ENTRIES // items):
            matrix[rows] = (by_item[rows] @ train.matrix).toarray()
        matrix[np.diag_indices(items)] += regularization
        try:
            _invert(matrix)
        except linalg.LinAlgError:
            raise ValueError(
                f"regularization {regularization:g} is too small to invert the Gram matrix "
                f"in {self.precision}"
            ) from None
        diagonal = np.diag(matrix).copy()
        # In float32 the weights take the place of the inverse.
        self.weights = matrix if matrix.dtype == np.float32 else np.empty(matrix.shape, np.float32)
        for rows in _blocks(items, _PIVOT_ROWS):
            np.divide(matrix[rows], -diagonal, out=self.weights[rows], casting="same_kind")
        np.fill_diagonal(self.weights, 0)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the scores of all items for some users."""
        return torch.from_numpy(self.matrix[users.numpy()] @ self.weights)

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the scores of all items for somebody with some items."""
        return torch.from_numpy(self.weights[items.numpy()].sum(axis=0))


def ease_memory(items: int, precision: Precision = "float64") -> int:
    """Bytes that a fit needs: the Gram matrix, inverted in place, and the weights in float32.

    In float32 the weights take the place of the inverse.
    """
    return (4 if precision == "float32" else 8 + 4) * items**2


def ease_precision(items: int) -> Precision:
    """The highest precision in which a fit fits into memory; a ``ValueError`` if none does."""
    allowed = usable_memory() / 2
    precisions: tuple[Precision, ...] = get_args(Precision)
    for precision in precisions:
        if ease_memory(items, precision) <= allowed:
            return precision
    raise ValueError(
        f"EASE of {items} items needs {ease_memory(items, 'float32') / 2**30:.1f} GiB, "
        f"more than the {allowed / 2**30:.1f} GiB that it may use"
    )


def _invert(matrix: NDArray[np.floating]) -> None:
    """Replace a positive definite matrix by its inverse; no second one is ever held.

    The symmetric sweep, with a block of rows as the pivot: sweeping all of them gives minus the
    inverse, in as many operations as LAPACK's potrf and potri.

    Raises:
        LinAlgError: if a pivot is not positive definite.
    """
    # SciPy's potrf and potri would do, but end with a segmentation fault in OpenBLAS at 41,000 rows
    # and two threads, which is Gowalla's number of items.
    size = len(matrix)
    buffer = np.empty(min(_PIVOT_ROWS, size) * size, dtype=matrix.dtype)
    for pivot in _blocks(size, _PIVOT_ROWS):
        # Only blocks on and below the diagonal are kept up to date.
        above, below = slice(pivot.start), slice(pivot.start, None)
        columns = np.concatenate([matrix[pivot, above].T, matrix[below, pivot]])
        identity = np.eye(pivot.stop - pivot.start, dtype=matrix.dtype)
        inverse = linalg.cho_solve(linalg.cho_factor(matrix[pivot, pivot]), identity)
        solved = columns @ inverse
        for rows in _blocks(size, _PIVOT_ROWS):
            shape = (rows.stop - rows.start, rows.stop)
            product = buffer[: shape[0] * shape[1]].reshape(shape)
            np.matmul(solved[rows], columns[: rows.stop].T, out=product)
            matrix[rows, : rows.stop] -= product
        matrix[pivot, above] = solved[above].T
        matrix[below, pivot] = solved[below]
        matrix[pivot, pivot] = -inverse
    np.negative(matrix, out=matrix)
    for rows in _blocks(size, _PIVOT_ROWS):
        matrix[rows, rows.stop :] = matrix[rows.stop :, rows].T


def _blocks(size: int, most: int) -> Iterator[slice]:
    """All rows of a matrix, in blocks of at most some rows."""
    step = max(1, most)
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))
