"""Losses of a few anchors and their gradients with respect to the logits, in one go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from bayescl._axes import Float, PerAnchor, Tensor
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional._log_space import contrast
from bayescl.functional._sorting import can_look, smallest_step, sorted_rows
from bayescl.functional.candidates import ContrastiveBatch
from bayescl.functional.objectives import Bayesian, Debiased, InfoNCE, Objective
from bayescl.functional.ranks import just_above


@dataclass(frozen=True)
class RowGradients:
    """Gradients of the (weighted) sum of a few anchors' losses.

    Attributes:
        unlabeled: with respect to the candidates' logits.
        positive: with respect to the positives' logits.
        temperature: with respect to the temperature where an objective depends on it other than
            through the logits; None where it does not.
    """

    unlabeled: Float[Tensor, "rows candidates"]
    positive: Float[Tensor, "rows"]
    temperature: Float[Tensor, ""] | None = None


def row_losses(
    objective_at: ObjectiveAt,
    temperature: float | Tensor,
    positive: Float[Tensor, "rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, "rows"] | None,
    *,
    differentiate: bool,
) -> tuple[PerAnchor, RowGradients | None]:
    """Compute the losses and, if asked, their gradients. May overwrite ``logits``.

    Args:
        objective_at: gives the objective at a temperature.
        temperature: what the logits were divided by.
        positive: logits of the positives.
        logits: logits of the candidates.
        batch: says which candidates count.
        rows: which anchors these are.
        upstream: what each loss's gradient is multiplied by; ones unless given.
        differentiate: whether gradients are wanted.
    """
    objective = objective_at(temperature)
    shares: Shares | None = None
    inner = logits
    if isinstance(objective, InfoNCE | Bayesian | Debiased):
        # These see their candidates through one sum of exponentials alone, whose gradient is a
        # softmax: autograd is left with a value or two per anchor.
        inner, shares = _log_sums(objective, logits, batch, rows)

    if shares is not None and not isinstance(objective, Debiased):
        losses = contrast(positive, inner)
        if not differentiate:
            return losses, None
        slope = torch.sigmoid(inner - positive)
        if upstream is not None:
            slope = slope * upstream
        return losses, RowGradients(shares(slope), -slope)

    def losses_of(objective: Objective, positive: Tensor, inner: Tensor) -> Tensor:
        if isinstance(objective, Debiased):
            return objective.from_log_sum(positive, inner, batch.log_counts(rows, inner.dtype))
        return objective(positive, inner, valid=batch.mask(rows))

    if not differentiate:
        return losses_of(objective, positive, inner), None
    with torch.enable_grad():
        leaves = [positive.detach().requires_grad_(), inner.detach().requires_grad_()]
        if isinstance(temperature, Tensor):
            leaves.append(temperature.detach().requires_grad_())
            objective = objective_at(leaves[2])
        losses = losses_of(objective, leaves[0], leaves[1])
        weights = torch.ones_like(losses) if upstream is None else upstream
        of_positive, of_inner, *of_temperature = torch.autograd.grad(
            losses, leaves, weights, allow_unused=True
        )
    direct = of_temperature[0] if of_temperature else None
    of_logits = of_inner if shares is None else shares(of_inner)
    return losses.detach(), RowGradients(of_logits, of_positive, direct)


Shares = Callable[[Tensor], Tensor]
"""Turns what each row's gradient sums to into the gradient of its logits."""


def _log_sums(
    objective: InfoNCE | Bayesian | Debiased, logits: Tensor, batch: ContrastiveBatch, rows: slice
) -> tuple[Tensor, Shares]:
    """Log of each row's (weighted) sum of exponentials over its candidates."""
    excluded = batch.rule.excluded_columns(rows)
    if isinstance(objective, Bayesian):
        exact = objective.ranks != "histogram"
        if exact and excluded is not None and can_look(logits):
            return _weighted_in_order(objective, logits, excluded)
        valid = batch.mask(rows)
        logits += objective.log_weights(logits, valid=valid)
    else:
        valid = batch.mask(rows) if excluded is None else None
    if excluded is not None:
        logits.scatter_(1, excluded, -torch.inf)
    elif valid is not None:
        logits.masked_fill_(~valid, -torch.inf)
    return _softmax_in_place(logits)


def _softmax_in_place(logits: Tensor) -> tuple[Tensor, Shares]:
    """Log of each row's sum of exponentials, and the softmax; overwrites ``logits``."""
    largest = logits.amax(dim=1)
    # A row with nothing to sum must not subtract infinities.
    largest = torch.where(largest > -torch.inf, largest, 0.0)
    exponentials = logits.sub_(largest[:, None]).exp_()
    total = exponentials.sum(dim=1)

    def shares(slope: Tensor) -> Tensor:
        return exponentials.mul_(torch.where(total > 0, slope / total, 0.0)[:, None])

    return total.log() + largest, shares


def _weighted_in_order(
    objective: Bayesian, logits: Tensor, excluded: Tensor
) -> tuple[Tensor, Shares]:
    """The same for weighted logits, in sorted order: there the weights of all rows are one vector.

    What the rule excludes is sorted to the end and cut off, so there is no mask either.
    """
    logits.scatter_(1, excluded, -torch.inf)
    logits.scatter_(1, excluded, just_above(logits).expand_as(excluded))
    ordered, columns = sorted_rows(logits)
    count = logits.shape[1] - excluded.shape[1]
    ordered, columns = ordered[:, :count], columns[:, :count]
    tied = (~(smallest_step(ordered) > 0)).nonzero().squeeze(1)
    # Tied candidates share the mean of their places: these rows have weights of their own.
    apart = ordered[tied]
    ordered += objective.untied_log_weights(count, logits.dtype, logits.device)
    if len(tied):
        ordered[tied] = apart + objective.sorted_log_weights(apart)
    log_sum, shares_in_order = _softmax_in_place(ordered)

    def shares(slope: Tensor) -> Tensor:
        logits.scatter_(1, excluded, 0.0)
        return logits.scatter_(1, columns, shares_in_order(slope))

    return log_sum, shares
