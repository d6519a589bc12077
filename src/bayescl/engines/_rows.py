"""Losses of a few anchors and their gradients with respect to the logits, in one go."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl._axes import Bool, Float, PerAnchor, Tensor
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional._log_space import contrast
from bayescl.functional.objectives import Bayesian, InfoNCE


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
    valid: Bool[Tensor, "rows candidates"] | None,
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
        valid: True where a candidate counts.
        upstream: what each loss's gradient is multiplied by; ones unless given.
        differentiate: whether gradients are wanted.
    """
    objective = objective_at(temperature)
    if isinstance(objective, InfoNCE | Bayesian):
        return _softmax_rows(objective, positive, logits, valid, upstream, differentiate)
    if not differentiate:
        return objective(positive, logits, valid=valid), None
    with torch.enable_grad():
        leaves = [positive.detach().requires_grad_(), logits.detach().requires_grad_()]
        if isinstance(temperature, Tensor):
            leaves.append(temperature.detach().requires_grad_())
            objective = objective_at(leaves[2])
        losses = objective(leaves[0], leaves[1], valid=valid)
        weights = torch.ones_like(losses) if upstream is None else upstream
        of_positive, of_logits, *of_temperature = torch.autograd.grad(
            losses, leaves, weights, allow_unused=True
        )
    direct = of_temperature[0] if of_temperature else None
    return losses.detach(), RowGradients(of_logits, of_positive, direct)


def _softmax_rows(
    objective: InfoNCE | Bayesian,
    positive: Tensor,
    logits: Tensor,
    valid: Tensor | None,
    upstream: Tensor | None,
    differentiate: bool,
) -> tuple[Tensor, RowGradients | None]:
    """A softmax with constant weights, whose gradient is the softmax itself; in place."""
    if isinstance(objective, Bayesian):
        logits += objective.log_weights(logits, valid=valid)
    if valid is not None:
        logits.masked_fill_(~valid, -torch.inf)
    largest = logits.amax(dim=1)
    # A row with nothing to sum must not subtract infinities.
    largest = torch.where(largest > -torch.inf, largest, 0.0)
    shares = logits.sub_(largest[:, None]).exp_()
    total = shares.sum(dim=1)
    log_negative = total.log() + largest
    losses = contrast(positive, log_negative)
    if not differentiate:
        return losses, None
    slope = torch.sigmoid(log_negative - positive)
    if upstream is not None:
        slope = slope * upstream
    shares *= torch.where(total > 0, slope / total, 0.0)[:, None]
    return losses, RowGradients(shares, -slope)
