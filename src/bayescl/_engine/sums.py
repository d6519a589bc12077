"""Sums of weighted exponentials of each row's logits. The logits are overwritten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from threading import Lock
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from bayescl._ops.objective import LogSumObjective
from bayescl._types import Float, Tensor
from bayescl.batch import Batch, Excluded

_SMALLEST_SUM = 1e-30
"""A sum below it is treated as 0, with gradient 0. Division by it does not overflow."""

_LARGEST_EXPONENT = 40.0
"""Up to this logit, sums of exponentials cannot overflow float32 and need no scaling."""

LOG2_E = math.log2(math.e)  # on the CPU, exp2 is up to four times as fast as exp


class Sums(NamedTuple):
    """Each row's exponentials relative to the row's largest logit, and their sum."""

    exponentials: Float[Tensor, "rows candidates"]
    total: Float[Tensor, " rows"]
    log: Float[Tensor, " rows"]  # log of the unscaled sum; -inf without candidates

    def per_unit(self, gradient: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """Return the factor of exponentials in the gradient by logits, given the one by ``log``."""
        return gradient / self.total.clamp(min=_SMALLEST_SUM)


def sums_of(
    objective: LogSumObjective,
    batch: Batch,
    rows: slice,
    logits: Float[Tensor, "rows candidates"],
    excluded: Excluded,
    bounds: tuple[float, float] | None,
) -> list[Sums]:
    """Compute the sums of an objective's powers except 0. Overwrites ``logits``.

    Finite ``bounds`` of the logits are known on the CPU. The maximum of each row may then not be
    needed.
    """
    # S_p = sum of w_i e^(p s_i) over the candidates i of a row, for each power p.
    powers = objective.sum_powers
    if objective.ranks is None:
        excluded.fill_(logits, -torch.inf)
        return exponentiate(logits, powers, bounds)
    if bounds is not None and powers == [1] and add_log_weights(objective, logits, excluded):
        return exponentiate(logits, bounds=bounds)
    # With weights, the exponents are p s_i + log w_i, [rows, candidates].
    log_weights = objective.log_weights(logits, valid=batch.mask(rows))
    others = [logits * power + log_weights for power in powers[1:]]
    if powers[0] != 1:
        logits *= powers[0]
    logits += log_weights
    sums = []
    for terms in (logits, *others):
        excluded.fill_(terms, -torch.inf)
        sums += exponentiate(terms)
    return sums


def add_log_weights(
    objective: LogSumObjective, logits: Float[Tensor, "rows candidates"], excluded: Excluded
) -> bool:
    """Add the logs of the weights by exact rank to logits in place, with Numba.

    The logits must be finite and on the CPU. Excluded logits become -inf. Return False without any
    change if Numba cannot be used.
    """
    compiled = compiled_ranks() if logits.is_contiguous() else None
    return compiled is not None and compiled.add_by_rank(
        logits.numpy(),
        _log_weights_by_rank(objective, logits.shape[1], logits.dtype),
        mask=None if excluded.mask is None else excluded.mask.contiguous().numpy(),
        columns=None if excluded.columns is None else excluded.columns.contiguous().numpy(),
        upper=objective.ranks == "upper",
    )


@lru_cache(maxsize=1)
def compiled_ranks() -> ModuleType | None:
    """Return :mod:`bayescl._ops.compiled`, or ``None`` if Numba is missing, broken or disabled."""
    try:
        from numba import config

        from bayescl._ops import compiled
    except ImportError:
        return None
    return None if config.DISABLE_JIT else compiled


class _LogWeightsByRank:
    """Tables of the logs of the weights by rank, one per number of candidates."""

    def __init__(self, objective: LogSumObjective, width: int, dtype: torch.dtype) -> None:
        self.objective, self.width = objective, width
        self._lock = Lock()
        self._known = torch.empty(0, 2, width, dtype=dtype)  # [counts, halves, places]
        self._row_of = np.full(width + 1, -1)

    def __call__(self, counts: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return read-only tables ``[tables, 2, width]``, and the table index of each count."""
        with self._lock:  # chunks may run on several threads
            if self._row_of[counts].min() < 0:
                distinct = np.unique(counts)
                if len(self._known) + len(distinct) > max(128, 2**21 // self.width):
                    self._known, self._row_of[:] = self._known[:0], -1
                new = distinct[self._row_of[distinct] < 0]
                self._row_of[new] = len(self._known) + np.arange(len(new))
                self._known = torch.cat([self._known, *map(self._table, new.tolist())])
            return self._known.numpy(), self._row_of[counts]

    def _table(self, count: int) -> Float[Tensor, "1 halves places"]:
        """Compute log weights at (place + 1/2) / count and (place + 1) / count, then -inf."""
        # The CDF values are (1, 3, 5, ...) and (2, 4, 6, ...) over 2 n.
        ranks = torch.arange(1, 2 * count + 1, dtype=self._known.dtype).view(count, 2).T
        log_weights = self.objective.weights_of_cdf(ranks / max(1, 2 * count)).log()
        return F.pad(log_weights, (0, self.width - count), value=-torch.inf)[None]


# Few objectives are in use at a time.
_log_weights_by_rank = lru_cache(maxsize=4)(_LogWeightsByRank)


def exponentiate(
    logits: Tensor,
    powers: Sequence[float] = (1.0,),
    bounds: tuple[float, float] | None = None,
) -> list[Sums]:
    """Compute each row's sum of exponentials for each power. Overwrites ``logits``."""
    largest: Tensor | None = None
    reach = math.inf if bounds is None else max(-bounds[0], bounds[1]) * max(powers)
    if reach > _LARGEST_EXPONENT:
        # log S_p = p m + log sum e^(p (s - m)), with m the row's largest logit. In an empty row,
        # -inf must not be subtracted from -inf.
        largest = logits.amax(dim=1).clamp_(min=torch.finfo(logits.dtype).min)
        logits.sub_(largest[:, None])
    sums: list[Sums] = []
    for power in reversed(powers):
        scale = power * LOG2_E
        terms = (logits.mul_(scale) if power is powers[0] else logits * scale).exp2_()
        total = terms.sum(dim=1)
        log = total.log()
        sums.insert(
            0, Sums(terms, total, log if largest is None else log.add_(largest, alpha=power))
        )
    return sums
