"""Sums of (weighted) exponentials of each row's logits, computed in place.

The exponentials stay where the logits were, 0 where a column is not a candidate: divided by
their sum they are the gradient of its logarithm.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from bayescl._axes import Float, Tensor
from bayescl.engines.batch import ContrastiveBatch
from bayescl.functional.objective import LogSumObjective
from bayescl.functional.sorting import can_look, sorted_rows_and_ties

_BLOCK = 2**18
"""Logits sorted at a time on the CPU: with all that sorting needs they stay in a core's cache."""


class Sums(NamedTuple):
    """Each row's exponentials, divided by that of the row's largest logit, and what they add to."""

    exponentials: Float[Tensor, "rows candidates"]
    total: Float[Tensor, " rows"]
    log: Float[Tensor, " rows"]
    """Logarithm of the sum before the division; -inf where a row has no candidates."""

    def per_unit(self, gradient: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """What turns exponentials into gradients of logits, given that of ``log``."""
        return torch.where(self.total > 0, gradient / self.total, 0.0)


def sums_of(
    objective: LogSumObjective,
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    *,
    differentiate: bool,
) -> list[Sums]:
    """Compute the sums of an objective's powers but 0; overwrites ``logits``, with the first.

    Args:
        objective: says which sums.
        logits: logits of the candidates.
        batch: says which candidates count.
        rows: which anchors these are.
        differentiate: whether the exponentials are wanted; else what they hold has no meaning.
    """
    powers = [power for power in objective.powers if power != 0]
    if objective.ranks is None:
        batch.excluded(rows).fill_(logits, -torch.inf)
        return exponentiate(logits, powers)
    if objective.ranks != "histogram" and powers == [1] and can_look(logits):
        return [_sums_in_order(objective, logits, batch, rows, differentiate=differentiate)]
    log_weights = objective.log_weights(logits, valid=batch.mask(rows))
    others = [logits * power + log_weights for power in powers[1:]]
    if powers[0] != 1:
        logits *= powers[0]
    logits += log_weights
    found = []
    for terms in (logits, *others):
        batch.excluded(rows).fill_(terms, -torch.inf)
        found += exponentiate(terms)
    return found


def _sums_in_order(
    objective: LogSumObjective,
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    *,
    differentiate: bool,
) -> Sums:
    """Sum with weights by exact rank: rows without ties share them in sorted order."""
    excluded = batch.excluded(rows)
    total, log = torch.empty_like(logits[:, 0]), torch.empty_like(logits[:, 0])
    step = max(1, _BLOCK // logits.shape[1])
    for start in range(0, len(logits), step):
        some = slice(start, start + step)
        block = logits[some]
        ordered, columns, ties, counts = sorted_rows_and_ties(
            block, excluded.of(some).places(block.shape[1])
        )
        alone = _untied_log_weights(objective, counts, block)
        if len(ties):
            _add_tied(ordered, alone, ties, counts, objective)
        else:
            ordered += alone
        _, total[some], log[some] = exponentiate(ordered)[0]
        if differentiate:
            block.scatter_(1, columns, ordered)
    return Sums(logits, total, log)


def _untied_log_weights(
    objective: LogSumObjective, counts: NDArray[np.int64], logits: Float[Tensor, "rows candidates"]
) -> Float[Tensor, "#rows candidates"]:
    """Logarithms of the weights at the places of sorted rows without ties; -inf behind the last.

    One row for all where all have equally many candidates.
    """
    distinct, which = np.unique(counts, return_inverse=True)
    width, dtype = logits.shape[1], logits.dtype
    each = [_log_weights_by_place(objective, count, width, dtype) for count in distinct.tolist()]
    return each[0][None] if len(each) == 1 else torch.stack(each)[torch.from_numpy(which)]


@lru_cache(maxsize=512)
def _log_weights_by_place(
    objective: LogSumObjective, count: int, places: int, dtype: torch.dtype
) -> Float[Tensor, " places"]:
    """Logarithms of the weights of ``count`` untied candidates in ascending order, then -inf.

    Remembered: do not write to it.
    """
    place = torch.arange(count, dtype=dtype)
    cdf = (place + 1.0 if objective.ranks == "upper" else place + 0.5) / max(1, count)
    return F.pad(objective.weights_of_cdf(cdf).log(), (0, places - count), value=-torch.inf)


def _add_tied(
    ordered: Float[Tensor, "rows candidates"],
    alone: Float[Tensor, "#rows candidates"],
    ties: NDArray[np.int64],
    counts: NDArray[np.int64],
    objective: LogSumObjective,
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
    shared = objective.weights_of_cdf(cdf).log().numpy()
    ends = size.cumsum()
    places = np.repeat(start - ends + size, size) + np.arange(ends[-1])
    flat = ordered.view(-1).numpy()
    values = flat[places] + np.repeat(shared, size)
    ordered += alone
    flat[places] = values


def exponentiate_weighted(logits: Tensor, weights: Tensor) -> Sums:
    """Sum the weighted exponentials of each row, which overwrite ``logits``.

    Weights are multiplied, as logarithms of 0 and exponentials of those are slow.
    """
    # What weighs nothing may be larger than anything that does, and must not make that vanish.
    largest = torch.where(weights > 0, logits, -torch.inf).amax(dim=1)
    largest = torch.where(largest > -torch.inf, largest, 0.0)
    total = logits.sub_(largest[:, None]).clamp_max_(0).exp_().mul_(weights).sum(dim=1)
    return Sums(logits, total, total.log() + largest)


def exponentiate(logits: Tensor, powers: Sequence[float] = (1.0,)) -> list[Sums]:
    """Sum the exponentials of each power of each row; the first overwrite ``logits``."""
    largest = logits.amax(dim=1)
    # A row with nothing to sum must not subtract infinities.
    largest = torch.where(largest > -torch.inf, largest, 0.0)
    logits.sub_(largest[:, None])
    scaled = [logits * power for power in powers[1:]]
    if powers[0] != 1:
        logits *= powers[0]
    found = []
    for terms, power in zip((logits, *scaled), powers, strict=True):
        total = terms.exp_().sum(dim=1)
        found.append(Sums(terms, total, total.log() + power * largest))
    return found
