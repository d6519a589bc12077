"""Sums of (weighted) exponentials of each row's logits, computed in place.

The exponentials stay where the logits were, 0 where a column is no candidate: divided by their sum
they are the gradient of its logarithm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl._axes import Float, Tensor
from bayescl.functional._sorting import can_look, sorted_rows_and_ties
from bayescl.functional.candidates import ContrastiveBatch
from bayescl.functional.objectives import Bayesian

_BLOCK = 2**18
"""Logits sorted at a time on the CPU: with all that sorting needs they stay in a core's cache."""


class Sums(NamedTuple):
    """Each row's exponentials, divided by that of the row's largest logit, and what they add to."""

    exponentials: Float[Tensor, "rows candidates"]
    total: Float[Tensor, "rows"]
    log: Float[Tensor, "rows"]
    """Logarithm of the sum before the division; -inf where a row has no candidates."""

    def per_unit(self, gradient: Float[Tensor, "rows"]) -> Float[Tensor, "rows"]:
        """What turns exponentials into gradients of logits, given that of ``log``."""
        return torch.where(self.total > 0, gradient / self.total, 0.0)


def plain_sums(
    logits: Float[Tensor, "rows candidates"], batch: ContrastiveBatch, rows: slice
) -> Sums:
    """Sum over the candidates of each row; overwrites ``logits``."""
    _drop(logits, batch, rows)
    return _exponentiate(logits)


def tilted_sums(
    logits: Float[Tensor, "rows candidates"],
    concentration: float,
    batch: ContrastiveBatch,
    rows: slice,
) -> tuple[Sums, Sums]:
    """Sum the exponentials of ``1 + concentration`` and of ``concentration`` times the logits.

    Overwrites ``logits`` with the first.
    """
    _drop(logits, batch, rows)
    largest = _subtract_largest(logits)
    tilt = (logits * concentration).exp_()
    logits.exp_().mul_(tilt)
    total, of_tilt = logits.sum(dim=1), tilt.sum(dim=1)
    return (
        Sums(logits, total, total.log() + (1 + concentration) * largest),
        Sums(tilt, of_tilt, of_tilt.log() + concentration * largest),
    )


def weighted_sums(
    objective: Bayesian,
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    *,
    differentiate: bool,
) -> Sums:
    """Sum with each candidate's importance weight; overwrites ``logits``.

    Args:
        objective: gives the weights.
        logits: logits of the candidates.
        batch: says which candidates count.
        rows: which anchors these are.
        differentiate: whether the exponentials are wanted; else what ``logits`` holds after has no
            meaning.
    """
    if objective.ranks == "histogram" or not can_look(logits):
        logits += objective.log_weights(logits, valid=batch.mask(rows))
        return plain_sums(logits, batch, rows)
    excluded = batch.excluded(rows)
    total, log = torch.empty_like(logits[:, 0]), torch.empty_like(logits[:, 0])
    step = max(1, _BLOCK // logits.shape[1])
    for start in range(0, len(logits), step):
        some = slice(start, start + step)
        block = logits[some]
        ordered, columns, ties, counts = sorted_rows_and_ties(block, excluded.of(some))
        alone = _untied_log_weights(objective, counts, block)
        if len(ties):
            _add_tied(ordered, alone, ties, counts, objective)
        else:
            ordered += alone
        _, total[some], log[some] = _exponentiate(ordered)
        if differentiate:
            block.scatter_(1, columns, ordered)
    return Sums(logits, total, log)


def _untied_log_weights(
    objective: Bayesian, counts: NDArray[np.int64], logits: Float[Tensor, "rows candidates"]
) -> Float[Tensor, "#rows candidates"]:
    """Logarithms of the weights at the places of sorted rows without ties; -inf behind the last.

    One row for all where all have equally many candidates.
    """
    distinct, which = np.unique(counts, return_inverse=True)
    width, dtype = logits.shape[1], logits.dtype
    each = [objective.log_weights_by_place(count, width, dtype) for count in distinct.tolist()]
    return each[0][None] if len(each) == 1 else torch.stack(each)[torch.from_numpy(which)]


def _add_tied(
    ordered: Float[Tensor, "rows candidates"],
    alone: Float[Tensor, "#rows candidates"],
    ties: NDArray[np.int64],
    counts: NDArray[np.int64],
    objective: Bayesian,
) -> None:
    """Add logarithms of weights to sorted rows in place, where ``ties`` equal the next value.

    Tied candidates share the mean rank of their places, or the last one; others have that of
    ``alone``.
    """
    width = ordered.shape[1]
    last = np.append(np.diff(ties) > 1, True)  # in the run of equal values, but for one behind it
    first = np.append(True, last[:-1])
    start, stop = ties[first], ties[last] + 2
    size = stop - start
    row = start // width
    below = start - row * width
    rank = below + (size if objective.ranks == "upper" else size / 2)
    cdf = torch.from_numpy(rank / counts[row]).to(ordered.dtype)
    shared = objective.log_weights_of_cdf(cdf).numpy()
    ends = size.cumsum()
    places = np.repeat(start - ends + size, size) + np.arange(ends[-1])
    flat = ordered.view(-1).numpy()
    values = flat[places] + np.repeat(shared, size)
    ordered += alone
    flat[places] = values


def _drop(logits: Tensor, batch: ContrastiveBatch, rows: slice) -> None:
    """Set the logits of all that is no candidate to -inf, in place."""
    batch.excluded(rows).fill_(logits, -torch.inf)


def _exponentiate(logits: Tensor) -> Sums:
    """Sum each row's exponentials; they overwrite ``logits``."""
    largest = _subtract_largest(logits)
    total = logits.exp_().sum(dim=1)
    return Sums(logits, total, total.log() + largest)


def _subtract_largest(logits: Tensor) -> Tensor:
    """Subtract each row's largest logit in place, and return it."""
    largest = logits.amax(dim=1)
    # A row with nothing to sum must not subtract infinities.
    largest = torch.where(largest > -torch.inf, largest, 0.0)
    logits.sub_(largest[:, None])
    return largest
