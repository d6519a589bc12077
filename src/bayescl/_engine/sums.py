"""Sums of weighted exponentials of each row's logits. The logits are overwritten."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

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
