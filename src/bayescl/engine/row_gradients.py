"""Losses of a few anchors and their gradients with respect to the logits, in one go.

Each kind of objective has its gradient here: plain functions (through autograd) and sums of powers.
The linear term of a soft target is added to either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.batch import Batch, Excluded
from bayescl.checks import is_eager_cpu
from bayescl.engine.reference import ObjectiveAt, checked_losses, rows_not_finite
from bayescl.engine.sums import Sums, sums_of
from bayescl.engine.targets import target_rows
from bayescl.functional.objective import LogSumObjective, as_data
from bayescl.functional.target import target_term


class Block(NamedTuple):
    """A few anchors of a batch, with their logits and their positives'."""

    batch: Batch
    rows: slice  # which anchors these are
    objective_at: ObjectiveAt
    temperature: float | Tensor  # what the logits were divided by
    positive: Float[Tensor, " pairs"]
    is_column: bool  # whether positives are among the logits
    anchor_of: Int[Tensor, " pairs"] | None  # which of these anchors; None if one pair each
    logits: Float[Tensor, "rows candidates"]  # may be overwritten
    upstream: Float[Tensor, " pairs"] | None  # factors of the losses' gradients; None for ones
    differentiate: bool  # whether gradients are wanted
    bounds: tuple[float, float] | None = None  # of the logits, where known and finite

    def of_pairs(self, values: Float[Tensor, "#rows"]) -> Float[Tensor, "#pairs"]:
        """Each pair's value, given one of each anchor, or one for all."""
        if self.anchor_of is None or (len(values) == 1 and len(self.logits) != 1):
            return values
        return values[self.anchor_of]

    def per_anchor(self, values: Float[Tensor, " pairs"]) -> Float[Tensor, " rows"]:
        """The sum over each anchor's pairs."""
        if self.anchor_of is None:
            return values
        return values.new_zeros(len(self.logits)).index_add_(0, self.anchor_of, values)


class RowGradients(NamedTuple):
    """Gradients of the (weighted) sum of a few anchors' losses."""

    unlabeled: Float[Tensor, "rows candidates"]  # of the candidates' logits, before the factor
    factor: Float[Tensor, " rows"] | None  # None for ones; matrix products are cheaper to scale
    positive: Float[Tensor, " pairs"]  # of the positives' logits
    temperature: Float[Tensor, ""] | None = None  # through the objective alone, not the logits


Result = tuple[Float[Tensor, " pairs"], RowGradients | None]


def row_losses(block: Block) -> Result:
    """Compute the losses of a few anchors' pairs and, if asked, their gradients."""
    positive, logits = block.positive, block.logits
    if is_eager_cpu(logits):
        ends = logits.aminmax()
        low, high = ends.min.item(), ends.max.item()
        if math.isfinite(low + high) and (block.is_column or math.isfinite(positive.sum())):
            return _finite_row_losses(block._replace(bounds=(low, high)))
    # Rows that are not finite are computed as zeros, and their results become NaN at the end.
    bad_rows = rows_not_finite(None, logits, lambda: block.batch.mask(block.rows))
    bad = ~positive.isfinite()
    if bad_rows is not None:
        logits.masked_fill_(bad_rows[:, None], 0.0)
        bad |= block.of_pairs(bad_rows)
    losses, gradients = _finite_row_losses(block._replace(positive=positive.masked_fill(bad, 0.0)))
    poison = torch.where(bad, torch.nan, 1.0).to(losses.dtype)
    if gradients is not None:
        factor, of_rows = gradients.factor, block.per_anchor(poison * 0) + 1
        factor = of_rows if factor is None else factor * of_rows
        gradients = gradients._replace(factor=factor, positive=gradients.positive * poison)
    return losses * poison, gradients


def _finite_row_losses(block: Block) -> Result:
    """:func:`row_losses` of rows whose logits are finite."""
    excluded = block.batch.excluded(block.rows)
    target = target_rows(block.batch, block.rows, excluded, block.logits.dtype)
    if target is None:
        return _objective_losses(block, excluded)
    if block.bounds is None:
        excluded.fill_(block.logits, 0.0)  # what is excluded may not be finite, and 0 * inf is NaN
    # Before the objective, which overwrites the logits.
    drawn = target_term(block.positive, block.logits, target, block.anchor_of)
    losses, gradients = _objective_losses(block, excluded)
    if gradients is not None:
        gradients = _with_target(gradients, target, block)
    return losses + drawn, gradients


def _with_target(gradients: RowGradients, target: Tensor, block: Block) -> RowGradients:
    """Add the gradient of the target term: -y_j for candidates, sum_j y_j for the positive."""
    total = block.of_pairs(target.sum(dim=1))
    if block.upstream is not None:
        total = total * block.upstream
    if block.upstream is not None or block.anchor_of is not None:
        share = torch.ones_like(block.positive) if block.upstream is None else block.upstream
        target = target * block.per_anchor(share)[:, None]
    of_logits, factor = gradients.unlabeled, gradients.factor
    if factor is not None:
        of_logits *= factor[:, None]
    of_logits -= target
    return gradients._replace(unlabeled=of_logits, factor=None, positive=gradients.positive + total)


def _objective_losses(block: Block, excluded: Excluded) -> Result:
    """Losses and gradients of the objective alone."""
    data = block.objective_at(block.temperature)
    if not isinstance(data, LogSumObjective):
        return _losses_of_function(block)
    return _losses_from_sums(
        data, block, sums_of(data, block.batch, block.rows, block.logits, excluded, block.bounds)
    )


def _losses_from_sums(objective: LogSumObjective, block: Block, sums: list[Sums]) -> Result:
    """Losses and gradients, which overwrite exponentials, from the sums of all powers but 0."""
    positive, powers = block.positive, objective.sum_powers
    logs = [block.of_pairs(part.log) for part in sums]
    if len(powers) < len(objective.powers):
        count = block.of_pairs(block.batch.log_counts(block.rows, positive.dtype))
        logs.insert(objective.powers.index(0), count)
    log_sums = tuple(logs)  # all that the objective sees
    if not block.differentiate:
        return objective.from_log_sums(positive, log_sums), None
    losses, of_positive, of_logs = objective.slopes(positive, log_sums)
    if block.upstream is not None:
        of_positive = of_positive * block.upstream
        of_logs = tuple([of_log * block.upstream for of_log in of_logs])
    if block.anchor_of is not None:
        of_logs = tuple([block.per_anchor(of_log) for of_log in of_logs])
    of_logits = sums[0].exponentials
    if objective.is_softmax:
        factor = sums[0].per_unit(of_logs[0])  # dL/ds_i = slope p e^(p s_i) / S
        if powers != [1]:
            factor *= powers[0]
        return losses, RowGradients(of_logits, factor, of_positive)
    # dL/ds_i = sum over p of (dL / d log S_p) p e^(p s_i) / S_p
    for part, power, of_log in zip(sums, powers, of_logs, strict=True):
        share = part.per_unit(of_log if power == 1 else of_log * power)[:, None]
        if part.exponentials is of_logits:
            of_logits *= share
        else:
            of_logits.addcmul_(part.exponentials, share)
    direct = _of_temperature_alone(block, log_sums)
    return losses, RowGradients(of_logits, None, of_positive, direct)


def _of_temperature_alone(
    block: Block, log_sums: tuple[Float[Tensor, "#pairs"], ...]
) -> Float[Tensor, ""] | None:
    """Gradient of the temperature through the objective alone, with logits as constants."""
    if not isinstance(block.temperature, Tensor):
        return None
    with torch.enable_grad():
        leaf = block.temperature.detach().requires_grad_()
        objective = as_data(block.objective_at(leaf))
        if objective is None:
            return None
        losses = objective.from_log_sums(block.positive, log_sums)
    if not losses.requires_grad:
        return None
    weights = torch.ones_like(losses) if block.upstream is None else block.upstream
    gradient = torch.autograd.grad(losses, leaf, weights)[0]
    # 0 times the infinite slope of 1 / temperature, at tiny temperatures; the losses are finite.
    return gradient.nan_to_num(0.0, torch.inf, -torch.inf)


def _losses_of_function(block: Block) -> Result:
    """Losses and gradients of a plain function of logits, which autograd differentiates."""
    with torch.set_grad_enabled(block.differentiate):
        leaves = [
            tensor.detach().requires_grad_(block.differentiate)
            for tensor in (block.positive, block.logits, block.temperature)
            if isinstance(tensor, Tensor)
        ]
        temperature = leaves[2] if len(leaves) == 3 else block.temperature
        objective, valid = block.objective_at(temperature), block.batch.mask(block.rows)
        logits = leaves[1]
        if block.anchor_of is not None:
            logits, valid = (
                logits[block.anchor_of],
                None if valid is None else valid[block.anchor_of],
            )
        losses = checked_losses(objective(leaves[0], logits, valid=valid), block.positive)
    if not block.differentiate:
        return losses, None
    weights = torch.ones_like(losses) if block.upstream is None else block.upstream
    of_positive, of_logits, *direct = torch.autograd.grad(
        losses, leaves, weights, materialize_grads=True
    )
    return losses.detach(), RowGradients(of_logits, None, of_positive, *direct)
