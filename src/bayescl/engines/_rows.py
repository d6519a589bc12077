"""Losses of a few anchors and their gradients with respect to the logits, in one go."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import exponentiate_weighted, sums_of
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.dense import ObjectiveAt, checked_losses, rows_not_finite
from bayescl.functional.log_space import contrast
from bayescl.functional.objective import LogSumObjective, as_data


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
    # Rows that are not finite are computed as zeros, and their results become NaN at the end.
    bad = rows_not_finite(positive, logits, lambda: batch.mask(rows))  # [rows], or None
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
    if data is not None and data.reads_same_class and batch.same_class is not None:
        tile = batch.same_class.tile(rows)
        return _pair_row_losses(
            data, tile, positive, logits, batch, rows, upstream, differentiate=differentiate
        )
    if data is None:
        return _losses_of_function(
            objective_at, temperature, positive, logits, batch, rows, upstream, differentiate
        )
    # The objective sees [rows] values alone: exponentials stay where the logits were.
    parts = sums_of(data, logits, batch, rows)
    log_sums = log_sums_of(data, [part.log for part in parts], batch, rows)
    if not differentiate:
        return data.from_log_sums(positive, log_sums), None
    losses, of_positive, of_logs = data.slopes(positive, log_sums)
    if upstream is not None:
        of_positive, of_logs = of_positive * upstream, tuple(one * upstream for one in of_logs)
    powers = [power for power in data.powers if power != 0]
    if data.is_softmax:
        # dL/ds_i = slope e^s_i / S, and -slope for the positive: S is left to the factor. The
        # gradient of a sum of 0 is 0; no other sum is below the clamp.
        total = parts[0].total.clamp(min=torch.finfo(of_positive.dtype).tiny)
        if powers != [1]:
            total /= powers[0]
        return losses, RowGradients(logits, of_logs[0] / total, of_positive, -total)
    # dL/ds_i = sum over p of (dL / d log S_p) p e^(p s_i) / S_p, in place of the exponentials.
    for part, power, of_log in zip(parts, powers, of_logs, strict=True):
        part.exponentials.mul_(part.per_unit(of_log * power)[:, None])
    for part in parts[1:]:
        logits += part.exponentials
    direct = of_temperature_alone(objective_at, temperature, positive, log_sums, upstream)
    return losses, RowGradients(logits, None, of_positive, of_positive, direct)


def log_sums_of(
    objective: LogSumObjective, logs: list[Tensor], batch: ContrastiveBatch, rows: slice
) -> tuple[Tensor, ...]:
    """The logs of all of an objective's sums, given those of powers other than 0."""
    given = iter(logs)
    return tuple(
        next(given) if power != 0 else batch.log_counts(rows, logs[0].dtype)
        for power in objective.powers
    )


def of_temperature_alone(
    objective_at: ObjectiveAt,
    temperature: float | Tensor,
    positive: Float[Tensor, " rows"],
    log_sums: tuple[Float[Tensor, "#rows"], ...],
    upstream: Float[Tensor, " rows"] | None,
) -> Float[Tensor, ""] | None:
    """Gradient of a temperature that an objective depends on other than through its logits."""
    if not isinstance(temperature, Tensor):
        return None
    with torch.enable_grad():
        leaf = temperature.detach().requires_grad_()
        objective = as_data(objective_at(leaf))
        if objective is None or objective.is_softmax:
            return None
        losses = objective.from_log_sums(positive, log_sums)
    if not losses.requires_grad:
        return None
    weights = torch.ones_like(losses) if upstream is None else upstream
    return torch.autograd.grad(losses, leaf, weights)[0]


def _losses_of_function(
    objective_at: ObjectiveAt,
    temperature: float | Tensor,
    positive: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, " rows"] | None,
    differentiate: bool,
) -> tuple[PerAnchor, RowGradients | None]:
    """The same for a plain function of logits, which autograd differentiates."""
    with torch.set_grad_enabled(differentiate):
        leaves = [tensor.detach().requires_grad_(differentiate) for tensor in (positive, logits)]
        if isinstance(temperature, Tensor):
            leaves.append(temperature.detach().requires_grad_(differentiate))
            temperature = leaves[-1]
        losses = objective_at(temperature)(leaves[0], leaves[1], valid=batch.mask(rows))
        losses = checked_losses(losses, positive)
    if not differentiate:
        return losses, None
    weights = torch.ones_like(losses) if upstream is None else upstream
    of_positive, of_logits, *direct = torch.autograd.grad(
        losses, leaves, weights, materialize_grads=True
    )
    return losses.detach(), RowGradients(of_logits, None, of_positive, of_positive, *direct)


def _pair_row_losses(
    objective: LogSumObjective,
    same_class: Float[Tensor, "rows candidates"],
    positive: Float[Tensor, " rows"],
    logits: Float[Tensor, "rows candidates"],
    batch: ContrastiveBatch,
    rows: slice,
    upstream: Float[Tensor, " rows"] | None,
    *,
    differentiate: bool,
) -> tuple[PerAnchor, RowGradients | None]:
    """The same where a posterior weighs candidates and makes targets of them.

    The loss is a cross-entropy of constant targets with a softmax of constant weights, so its
    gradient is the difference of the two.
    """
    weights, pulls = objective.pair_parts(same_class)
    excluded = batch.excluded(rows)
    excluded.fill_(weights, 0.0)
    excluded.fill_(logits, 0.0)  # it weighs nothing, whatever it holds
    # Scales of rows are left to the end: they cost less than scaling matrices.
    count = excluded.counts(logits.shape[1], logits.device).to(logits.dtype)
    total = weights.sum(dim=1)
    log_scale = (count / torch.where(total > 0, total, 1)).log()
    gap, taken, share = torch.zeros_like(positive), torch.zeros_like(positive), None
    if pulls is not None:
        excluded.fill_(pulls, 0.0)
        taken = pulls.sum(dim=1)
        share = 1 / (1 + taken)
        taken *= share
        gap = taken * positive - share * (pulls * logits).sum(dim=1)
    sums = exponentiate_weighted(logits, weights)
    log_sum = sums.log + log_scale
    losses = contrast(positive, log_sum) + gap
    if not differentiate:
        return losses, None
    slope = torch.sigmoid(log_sum - positive)
    if upstream is not None:
        slope, taken = slope * upstream, taken * upstream
    logits *= sums.per_unit(slope)[:, None]
    if pulls is not None and share is not None:
        logits.addcmul_(pulls, (share if upstream is None else share * upstream)[:, None], value=-1)
    of_positive = taken - slope
    return losses, RowGradients(logits, None, of_positive, of_positive)
