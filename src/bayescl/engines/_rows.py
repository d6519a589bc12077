"""Losses of a few anchors and their gradients with respect to the logits, in one go."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch.nn.functional import logsigmoid

from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import Sums, exponentiate_weighted, sums_of
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.dense import ObjectiveAt, checked_losses, rows_not_finite
from bayescl.functional.log_space import contrast
from bayescl.functional.objective import LogSumObjective, Objective, as_data


@dataclass(frozen=True)
class RowGradients:
    """Gradients of the (weighted) sum of a few anchors' losses.

    Attributes:
        unlabeled: with respect to the candidates' logits, each row yet to be multiplied by its
            ``factor``.
        factor: left out of ``unlabeled``, since a product with embeddings is cheaper to scale
            than the matrix; 0 only where the positive's gradient is 0 too. None for ones.
        positive: with respect to the positives' logits.
        share: the same, yet to be multiplied by ``factor`` too; where the positives are columns
            themselves, it is their part of ``unlabeled``.
        temperature: with respect to the temperature where an objective depends on it other than
            through the logits; None where it does not.
    """

    unlabeled: Float[Tensor, "rows candidates"]
    factor: Float[Tensor, " rows"] | None
    positive: Float[Tensor, " rows"]
    share: Float[Tensor, " rows"]
    temperature: Float[Tensor, ""] | None = None


def row_losses(
    objective_at: ObjectiveAt,
    temperature: float | Tensor,
    positive: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, " rows"] | None,
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
        upstream: what each loss's gradient is multiplied by; default: ones.
        differentiate: whether gradients are wanted.
    """
    bad = rows_not_finite(positive, logits, lambda: batch.mask(rows))
    if bad is not None:
        logits.masked_fill_(bad[:, None], 0.0)
        positive = positive.masked_fill(bad, 0.0)
    losses, gradients = _finite_row_losses(
        objective_at,
        temperature,
        positive,
        logits,
        batch,
        rows,
        upstream,
        differentiate=differentiate,
    )
    if bad is None:
        return losses, gradients
    poison = torch.where(bad, torch.nan, 1.0).to(losses.dtype)
    if gradients is not None:
        factor = gradients.factor
        gradients = replace(
            gradients,
            factor=poison if factor is None else factor * poison,
            positive=gradients.positive * poison,
        )
    return losses * poison, gradients


def _finite_row_losses(
    objective_at: ObjectiveAt,
    temperature: float | Tensor,
    positive: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, " rows"] | None,
    *,
    differentiate: bool,
) -> tuple[PerAnchor, RowGradients | None]:
    """The same of rows whose logits are finite."""
    objective = objective_at(temperature)
    data = as_data(objective)
    if data is not None and data.reads_same_class and batch.knows_pairs:
        return _pair_row_losses(
            data, positive, logits, batch, rows, upstream, differentiate=differentiate
        )
    if data is not None and data.is_softmax:
        (sums,) = sums_of(data, logits, batch, rows)
        losses = data.from_log_sums(positive, (sums.log,))
        if not differentiate:
            return losses, None
        slope = torch.sigmoid(sums.log - positive)
        if upstream is not None:
            slope *= upstream
        # The gradient of a sum of 0 is 0; elsewhere no sum is below the clamp.
        total = sums.total.clamp(min=torch.finfo(slope.dtype).tiny)
        if data.powers != (1.0,):
            total /= data.powers[0]
        return losses, RowGradients(logits, slope / total, -slope, -total)

    # Others see their candidates through a few sums: autograd is left with a few values per
    # anchor. What is no data sees all logits.
    parts: list[Sums] = []
    if data is not None:
        parts = sums_of(data, logits, batch, rows)
    inner = [logits] if data is None else [part.log for part in parts]

    def losses_of(objective: Objective, positive: Tensor, inner: list[Tensor]) -> Tensor:
        data = as_data(objective)
        if data is None:
            found = objective(positive, inner[0], valid=batch.mask(rows))
            return checked_losses(found, positive)
        sums = iter(inner)
        log_sums = [
            batch.log_counts(rows, positive.dtype) if power == 0 else next(sums)
            for power in data.powers
        ]
        return data.from_log_sums(positive, tuple(log_sums))

    if not differentiate:
        return losses_of(objective, positive, inner), None
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_() for tensor in (positive, *inner)]
        if isinstance(temperature, Tensor):
            leaves.append(temperature.detach().requires_grad_())
            objective = objective_at(leaves[-1])
        losses = losses_of(objective, leaves[0], leaves[1 : 1 + len(inner)])
        weights = torch.ones_like(losses) if upstream is None else upstream
        of_positive, *of_inner = torch.autograd.grad(
            losses, leaves, weights, materialize_grads=True
        )
    direct = of_inner.pop() if isinstance(temperature, Tensor) else None
    losses = losses.detach()
    if data is None:
        return losses, RowGradients(of_inner[0], None, of_positive, of_positive, direct)
    powers = [power for power in data.powers if power != 0]
    for part, power, of_log in zip(parts, powers, of_inner, strict=True):
        part.exponentials.mul_(part.per_unit(of_log * power)[:, None])
    for part in parts[1:]:
        logits += part.exponentials
    return losses, RowGradients(logits, None, of_positive, of_positive, direct)


def _pair_row_losses(
    objective: LogSumObjective,
    positive: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, " rows"] | None,
    *,
    differentiate: bool,
) -> tuple[PerAnchor, RowGradients | None]:
    """The same where a posterior weighs candidates and makes targets of them.

    :class:`~bayescl.functional.objective.PairTerms` has the formula. All it holds is constant for
    the gradient: a softmax less the targets, and for members q_j = m_j sigmoid(log N - s_j),

        dL/ds_j = slope w_j e^s_j / sum - h p_j - q_j + (sum_k q_k) o_j e^s_j / N.
    """
    excluded = batch.excluded(rows)
    same_class, certain = batch.posterior(rows)
    terms = objective.pair_terms(same_class, excluded, certain)
    excluded.fill_(logits, 0.0)  # it weighs nothing, whatever it holds
    gap, taken = torch.zeros_like(positive), torch.zeros_like(positive)
    if terms.pulls is not None:
        taken = terms.share * terms.pulls.sum(dim=1)
        gap = taken * positive - terms.share * (terms.pulls * logits).sum(dim=1)
    rest, drawn = None, None
    if terms.members is not None and terms.others is not None:
        rest = exponentiate_weighted(logits.clone(), terms.others)
        ahead = logits - (rest.log + terms.others_scale.log())[:, None]
        gap = gap - (terms.members * logsigmoid(ahead)).sum(dim=1)
        drawn = ahead.neg_().sigmoid_().mul_(terms.members)
    sums = exponentiate_weighted(logits, terms.weights)
    log_sum = sums.log + terms.scale.log()
    losses = contrast(positive, log_sum) + gap
    if not differentiate:
        return losses, None
    slope, share = torch.sigmoid(log_sum - positive), terms.share
    if upstream is not None:
        slope, taken, share = slope * upstream, taken * upstream, share * upstream
    logits *= sums.per_unit(slope)[:, None]
    if terms.pulls is not None:
        logits.addcmul_(terms.pulls, share[:, None], value=-1)
    if drawn is not None and rest is not None:
        if upstream is not None:
            drawn *= upstream[:, None]
        logits.addcmul_(rest.exponentials, rest.per_unit(drawn.sum(dim=1))[:, None]).sub_(drawn)
    of_positive = taken - slope
    return losses, RowGradients(logits, None, of_positive, of_positive)
