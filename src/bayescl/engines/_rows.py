"""Losses of a few anchors and their gradients with respect to the logits, in one go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from bayescl._axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import Sums, plain_sums, tilted_sums, weighted_sums
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional._log_space import contrast
from bayescl.functional.candidates import ContrastiveBatch
from bayescl.functional.objectives import Bayesian, Debiased, Hard, InfoNCE, Objective


@dataclass(frozen=True)
class RowGradients:
    """Gradients of the (weighted) sum of a few anchors' losses.

    Attributes:
        unlabeled: with respect to the candidates' logits, each row yet to be multiplied by its
            ``factor``.
        factor: left out of ``unlabeled``, since a product with embeddings is cheaper to scale
            than the matrix; 0 only where the positive's gradient is 0 too. None for ones.
        positive: with respect to the positives' logits.
        temperature: with respect to the temperature where an objective depends on it other than
            through the logits; None where it does not.
    """

    unlabeled: Float[Tensor, "rows candidates"]
    factor: Float[Tensor, "rows"] | None
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
    if isinstance(objective, InfoNCE | Bayesian):
        # These see their candidates through one sum of exponentials alone, whose gradient is a
        # softmax.
        if isinstance(objective, Bayesian):
            sums = weighted_sums(objective, logits, batch, rows, differentiate=differentiate)
        else:
            sums = plain_sums(logits, batch, rows)
        losses = contrast(positive, sums.log)
        if not differentiate:
            return losses, None
        slope = torch.sigmoid(sums.log - positive)
        if upstream is not None:
            slope *= upstream
        return losses, RowGradients(logits, sums.per_unit(slope), -slope)

    # The other two see them through one sum or two: autograd is left with a few values per anchor.
    inner, parts = [logits], _sums(objective, logits, batch, rows)
    if parts:
        inner = [part.log for part in parts]

    def losses_of(objective: Objective, positive: Tensor, inner: list[Tensor]) -> Tensor:
        if isinstance(objective, Debiased | Hard):
            return objective.from_log_sums(
                positive, *inner, log_count=batch.log_counts(rows, positive.dtype)
            )
        return objective(positive, inner[0], valid=batch.mask(rows))

    if not differentiate:
        return losses_of(objective, positive, inner), None
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in (positive, *inner)]
        if isinstance(temperature, Tensor):
            leaves.append(temperature.detach().requires_grad_())
            objective = objective_at(leaves[-1])
        losses = losses_of(objective, leaves[0], leaves[1 : 1 + len(inner)])
        weights = torch.ones_like(losses) if upstream is None else upstream
        of_positive, *of_inner = torch.autograd.grad(losses, leaves, weights, allow_unused=True)
    direct = of_inner.pop() if isinstance(temperature, Tensor) else None
    losses = losses.detach()
    if not parts:
        return losses, RowGradients(of_inner[0], None, of_positive, direct)
    of_sum = parts[0].per_unit(of_inner[0])
    if isinstance(objective, Hard) and len(parts) == 2:
        of_sum *= 1 + objective.concentration
        of_tilt = parts[1].per_unit(of_inner[1]) * objective.concentration
        logits.mul_(of_sum[:, None]).add_(parts[1].exponentials.mul_(of_tilt[:, None]))
    else:
        logits *= of_sum[:, None]
    return losses, RowGradients(logits, None, of_positive, direct)


def _sums(
    objective: Objective, logits: Tensor, batch: ContrastiveBatch, rows: slice
) -> Sequence[Sums]:
    """The sums through which an objective sees its candidates; none for one not known here."""
    if isinstance(objective, Hard) and objective.concentration > 0:
        return tilted_sums(logits, objective.concentration, batch, rows)
    if isinstance(objective, Debiased | Hard):
        return [plain_sums(logits, batch, rows)]
    return []
