"""Losses of a few anchors and their gradients by the logits.

Plain functions are differentiated by autograd, objectives with sums of exponentials in closed form.
The linear term of a soft target is added to either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from bayescl._checks import is_eager_cpu
from bayescl._engine.reference import ObjectiveAt, checked_losses, rows_not_finite
from bayescl._engine.targets import target_rows
from bayescl._ops.objective import LogSumObjective, tensors
from bayescl._ops.ranks import map_bounded_cdf
from bayescl._types import Float, Int, Tensor
from bayescl.batch import Batch, Excluded

_LARGEST_EXPONENT = 40.0
"""Up to this logit, sums of exponentials cannot overflow float32 and need no scaling."""

_ABOVE_ONE = 1.001
"""Bound of the product of two unit vectors, with rounding."""

LOG2_E = math.log2(math.e)


class Chunk(NamedTuple):
    """A few anchors of a batch, with the logits of their candidates and positives."""

    batch: Batch
    rows: slice  # the anchors in the batch
    objective_at: ObjectiveAt
    temperature: float | Tensor  # the logits are already divided by it
    positive: Float[Tensor, " pairs"]
    is_column: bool  # whether positives are among the logits
    anchor_of: Int[Tensor, " pairs"] | None  # among these anchors; None if each has one pair
    logits: Float[Tensor, "rows candidates"]  # may be overwritten
    upstream: Float[Tensor, " pairs"] | None  # upstream gradient; None for ones
    differentiate: bool  # whether gradients are needed
    bounds: tuple[float, float] | None = None  # bounds of the logits that are not NaN, if known
    excluded: Excluded | None = None  # default: as the batch says

    @property
    def reach(self) -> float | None:
        """Largest possible magnitude of the logits, if embeddings have length 1."""
        if not self.batch.are_units or isinstance(self.temperature, Tensor):
            return None
        return _ABOVE_ONE / self.temperature

    def per_pair(self, values: Float[Tensor, "#rows"]) -> Float[Tensor, "#pairs"]:
        """Expand values per anchor, or one value for all, to pairs."""
        if self.anchor_of is None or (len(values) == 1 and len(self.logits) != 1):
            return values
        return values[self.anchor_of]

    def per_anchor(self, values: Float[Tensor, " pairs"]) -> Float[Tensor, " rows"]:
        """Sum values over each anchor's pairs."""
        if self.anchor_of is None:
            return values
        return values.new_zeros(len(self.logits)).index_add_(0, self.anchor_of, values)


class RowGradients(NamedTuple):
    """Gradients of the (weighted) sum of a few anchors' losses."""

    unlabeled: Float[Tensor, "rows candidates"]  # by the candidates' logits, without the factor
    factor: Float[Tensor, " rows"] | None  # None for ones; applied after the matrix products
    pull: Float[Tensor, " pairs"]  # minus the gradient by the positives' logits
    temperature: Float[Tensor, ""] | None = None  # through the objective only, not the logits


Result = tuple[Float[Tensor, " pairs"], RowGradients | None]


def row_losses(chunk: Chunk) -> Result:
    """Compute the losses of a few anchors' pairs and, if needed, their gradients."""
    positive, logits = chunk.positive, chunk.logits
    if chunk.bounds is not None:  # without a mask, NaN in a row is NaN in all losses
        return _finite_row_losses(chunk)
    if is_eager_cpu(logits):
        ends = logits.aminmax()
        low, high = ends.min.item(), ends.max.item()
        if math.isfinite(low + high) and (chunk.is_column or math.isfinite(positive.sum())):
            return _finite_row_losses(chunk._replace(bounds=(low, high)))
    # Rows that are not finite are replaced by zeros; their results become NaN at the end.
    bad_rows = rows_not_finite(None, logits, lambda: chunk.batch.mask(chunk.rows))
    bad = ~positive.isfinite()
    if bad_rows is not None:
        logits.masked_fill_(bad_rows[:, None], 0.0)
        bad |= chunk.per_pair(bad_rows)
    losses, gradients = _finite_row_losses(chunk._replace(positive=positive.masked_fill(bad, 0.0)))
    poison = torch.where(bad, torch.nan, 1.0).to(losses.dtype)
    if gradients is not None:
        factor, row_factor = gradients.factor, chunk.per_anchor(poison * 0) + 1
        factor = row_factor if factor is None else factor * row_factor
        gradients = gradients._replace(factor=factor, pull=gradients.pull * poison)
    return losses * poison, gradients


def _finite_row_losses(chunk: Chunk) -> Result:
    """Compute :func:`row_losses` of rows with finite logits."""
    excluded = chunk.excluded or chunk.batch.excluded(chunk.rows)
    if chunk.batch.target is None:
        return _objective_losses(chunk, excluded)
    # The target adds sum_j y_j (s+ - s_j). Its gradient is -y_j by the candidates, and sum_j y_j by
    # the positive.
    minus_target = target_rows(chunk.batch, chunk.batch.target, chunk.rows, excluded, sign=-1)
    minus_total = chunk.per_pair(minus_target.sum(dim=1))
    if chunk.bounds is None:
        excluded.fill_(chunk.logits, 0.0)  # excluded logits may be infinite, and 0 * inf is NaN
    # This comes before the objective, which overwrites the logits.
    minus_drawn = chunk.per_pair(torch.einsum("an,an->a", minus_target, chunk.logits))
    losses, gradients = _objective_losses(chunk, excluded)
    losses = losses + minus_drawn.addcmul_(chunk.positive, minus_total, value=-1)
    if gradients is None:
        return losses, None
    if chunk.upstream is not None:
        minus_total = minus_total * chunk.upstream
    if chunk.upstream is not None or chunk.anchor_of is not None:
        share = torch.ones_like(chunk.positive) if chunk.upstream is None else chunk.upstream
        minus_target *= chunk.per_anchor(share)[:, None]
    if gradients.factor is None:
        grad_logits = minus_target.add_(gradients.unlabeled)
    else:
        grad_logits = minus_target.addcmul_(gradients.unlabeled, gradients.factor[:, None])
    pull = gradients.pull + minus_total
    return losses, gradients._replace(unlabeled=grad_logits, factor=None, pull=pull)


def _objective_losses(chunk: Chunk, excluded: Excluded) -> Result:
    """Compute losses and gradients of the objective, without the target."""
    objective = chunk.objective_at(chunk.temperature)
    if not isinstance(objective, LogSumObjective):
        return _losses_of_function(chunk)
    sums = sums_of(objective, chunk, excluded)
    positive, powers = chunk.positive, objective.sum_powers
    logs: list[Tensor | float] = []
    for part in sums:
        logs.append(chunk.per_pair(part.log))
    if len(powers) < len(objective.powers):
        count = excluded.log_count(chunk.logits)
        count = chunk.per_pair(count) if isinstance(count, Tensor) else count
        logs.insert(objective.powers.index(0), count)
    log_sums = tuple(logs)  # the input of the objective
    if not chunk.differentiate:
        return objective.from_log_sums(positive, tensors(log_sums, positive)), None
    losses, pull, grad_log_sums = objective.slopes(positive, log_sums)
    if chunk.upstream is not None:
        pull = pull * chunk.upstream
        grad_log_sums = tuple([grad_log_sum * chunk.upstream for grad_log_sum in grad_log_sums])
    if chunk.anchor_of is not None:
        grad_log_sums = tuple([chunk.per_anchor(grad_log_sum) for grad_log_sum in grad_log_sums])
    grad_logits = sums[0].exponentials
    if objective.is_softmax:
        factor = sums[0].per_unit(grad_log_sums[0])  # dL/ds_i = slope p e^(p s_i) / S
        if powers != [1]:
            factor *= powers[0]
        return losses, RowGradients(grad_logits, factor, pull)
    # dL/ds_i = sum over p of (dL / d log S_p) p e^(p s_i) / S_p
    first = powers.index(1) if 1 in powers else 0
    grad_logits = sums[first].exponentials.mul_(sums[first].per_unit(grad_log_sums[first])[:, None])
    if powers[first] != 1:
        grad_logits *= powers[first]
    for number, (part, power) in enumerate(zip(sums, powers, strict=True)):
        if number != first:
            share = part.per_unit(grad_log_sums[number])[:, None]
            grad_logits.addcmul_(part.exponentials, share, value=power)
    direct = _direct_temperature_gradient(chunk, log_sums)
    return losses, RowGradients(grad_logits, None, pull, direct)


def _direct_temperature_gradient(
    chunk: Chunk, log_sums: tuple[Float[Tensor, " pairs"] | float, ...]
) -> Float[Tensor, ""] | None:
    """Compute the temperature's gradient through the objective, with constant logits."""
    if not isinstance(chunk.temperature, Tensor):
        return None
    with torch.enable_grad():
        leaf = chunk.temperature.detach().requires_grad_()
        objective = chunk.objective_at(leaf)
        assert isinstance(objective, LogSumObjective)  # as without a gradient
        losses = objective.from_log_sums(chunk.positive, tensors(log_sums, chunk.positive))
    if not losses.requires_grad:
        return None
    weights = torch.ones_like(losses) if chunk.upstream is None else chunk.upstream
    gradient = torch.autograd.grad(losses, leaf, weights)[0]
    # At tiny temperatures, 0 times the infinite slope of 1 / temperature would give NaN.
    return gradient.nan_to_num(0.0, torch.inf, -torch.inf)


def _losses_of_function(chunk: Chunk) -> Result:
    """Compute losses and gradients of a plain function of logits by autograd."""
    with torch.set_grad_enabled(chunk.differentiate):
        leaves = [
            tensor.detach().requires_grad_(chunk.differentiate)
            for tensor in (chunk.positive, chunk.logits, chunk.temperature)
            if isinstance(tensor, Tensor)
        ]
        temperature = leaves[2] if len(leaves) == 3 else chunk.temperature
        objective, valid = chunk.objective_at(temperature), chunk.batch.mask(chunk.rows)
        logits = leaves[1]
        if chunk.anchor_of is not None:
            logits = logits[chunk.anchor_of]
            valid = None if valid is None else valid[chunk.anchor_of]
        losses = checked_losses(objective(leaves[0], logits, valid=valid), chunk.positive)
    if not chunk.differentiate:
        return losses, None
    weights = torch.ones_like(losses) if chunk.upstream is None else chunk.upstream
    grad_positive, grad_logits, *direct = torch.autograd.grad(
        losses, leaves, weights, materialize_grads=True
    )
    return losses.detach(), RowGradients(grad_logits, None, -grad_positive, *direct)


class Sums(NamedTuple):
    """Each row's exponentials relative to the row's largest logit, and their sum."""

    exponentials: Float[Tensor, "rows candidates"]
    total: Float[Tensor, " rows"]
    log: Float[Tensor, " rows"]  # log of the unscaled sum; -inf without candidates
    may_be_zero: bool  # whether a row may have no candidates

    def per_unit(self, gradient: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """Return the factor of exponentials in the gradient by logits, given that by ``log``."""
        if not self.may_be_zero:
            return gradient / self.total
        # Without candidates the gradient is 0 as well: divide it by any other number.
        return gradient / self.total.clamp(min=torch.finfo(self.total.dtype).tiny)


def sums_of(objective: LogSumObjective, chunk: Chunk, excluded: Excluded) -> list[Sums]:
    """Compute the sums of an objective's powers except 0. Overwrites the logits.

    If finite bounds of the logits are known, the maximum of each row may not be needed.
    """
    # S_p = sum of w_i e^(p s_i) over the candidates i of a row, for each power p.
    powers, logits, batch, bounds = objective.sum_powers, chunk.logits, chunk.batch, chunk.bounds
    if objective.ranks is None:
        excluded.fill_(logits, -torch.inf)
        may_be_zero = excluded.mask is not None or logits.shape[1] < 3
        return exponentiate(logits, powers, bounds, may_be_zero=may_be_zero)
    # With weights, the exponents are p s_i + log w_i, [rows, candidates].
    reach = chunk.reach
    if reach is not None and (excluded.mask is None or not is_eager_cpu(logits)):
        excluded.fill_(logits, -torch.inf)
        log_weights = map_bounded_cdf(
            logits,
            # Weights above 5e8 are cut, so that sums do not overflow.
            lambda cdf: objective.weights_of_cdf(cdf).log().clamp(max=_LARGEST_EXPONENT / 2),
            reach=reach,
            excluded=None if excluded.mask is not None else excluded.few,
            ranks=objective.ranks,
            key=objective,
        )
    else:
        log_weights = objective.log_weights(logits, valid=batch.mask(chunk.rows))
        bounds = None
    others = [logits * power + log_weights for power in powers[1:]]
    if powers[0] != 1:
        logits *= powers[0]
    logits += log_weights
    sums = []
    for terms in (logits, *others):
        if bounds is None:
            excluded.fill_(terms, -torch.inf)
        sums += exponentiate(terms, bounds=bounds)
    return sums


def exponentiate(
    logits: Tensor,
    powers: Sequence[float] = (1.0,),
    bounds: tuple[float, float] | None = None,
    *,
    may_be_zero: bool = True,
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
    # On the CPU, exp2 is up to four times as fast as exp.
    exponential, unit = (torch.exp2, LOG2_E) if is_eager_cpu(logits) else (torch.exp, 1.0)
    for power in reversed(powers):  # the first power is the last one: it may overwrite the logits
        out = logits if power is powers[0] else torch.empty_like(logits)
        if sums and power == 2 * powers[len(powers) - len(sums)]:
            terms = torch.square(sums[0].exponentials, out=out)
        else:
            terms = logits if power * unit == 1 else torch.mul(logits, power * unit, out=out)
            terms = exponential(terms, out=out)
        total = terms.sum(dim=1)
        log = total.log()
        if largest is not None:
            log.add_(largest, alpha=power)
        sums.insert(0, Sums(terms, total, log, may_be_zero))
    return sums
