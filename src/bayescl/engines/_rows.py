"""Losses of a few anchors and their gradients with respect to the logits, in one go.

Each kind of objective has its formula here: plain functions (through autograd), sums of powers,
terms of pairs, and the sigmoid.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import logsigmoid

from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.engines._exponentials import Sums, exponentiate, exponentiate_weighted, sums_of
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.dense import ObjectiveAt, checked_losses, rows_not_finite
from bayescl.functional.excluded import Excluded
from bayescl.functional.log_space import contrast, softplus
from bayescl.functional.objective import LogSumObjective, PairTerms, as_data
from bayescl.functional.sigmoid import Sigmoid


class Chunk(NamedTuple):
    """A few anchors of a batch, with their logits."""

    batch: ContrastiveBatch
    rows: slice  # which anchors these are
    objective_at: ObjectiveAt
    temperature: float | Tensor  # what the logits were divided by
    positive: Float[Tensor, " rows"]
    logits: Float[Tensor, "rows candidates"]  # may be overwritten
    upstream: Float[Tensor, " rows"] | None  # factors of the losses' gradients; None for ones
    differentiate: bool  # whether gradients are wanted


class RowGradients(NamedTuple):
    """Gradients of the (weighted) sum of a few anchors' losses."""

    unlabeled: Float[Tensor, "rows candidates"]  # of the candidates' logits, before the factor
    factor: Float[Tensor, " rows"] | None  # None for ones; matrix products are cheaper to scale
    positive: Float[Tensor, " rows"]  # of the positives' logits
    temperature: Float[Tensor, ""] | None = None  # through the objective alone, not the logits


Result = tuple[PerAnchor, RowGradients | None]


def row_losses(chunk: Chunk) -> Result:
    """Compute the losses of a few anchors and, if asked, their gradients."""
    # Rows that are not finite are computed as zeros, and their results become NaN at the end.
    bad = rows_not_finite(chunk.positive, chunk.logits, lambda: chunk.batch.mask(chunk.rows))
    if bad is None:
        return _finite_row_losses(chunk)
    chunk.logits.masked_fill_(bad[:, None], 0.0)
    losses, gradients = _finite_row_losses(
        chunk._replace(positive=chunk.positive.masked_fill(bad, 0.0))
    )
    poison = torch.where(bad, torch.nan, 1.0).to(losses.dtype)
    if gradients is not None:
        factor = gradients.factor
        factor = poison if factor is None else factor * poison
        gradients = gradients._replace(factor=factor, positive=gradients.positive * poison)
    return losses * poison, gradients


def _finite_row_losses(chunk: Chunk) -> Result:
    """:func:`row_losses` of rows whose logits are finite."""
    batch, rows = chunk.batch, chunk.rows
    objective = chunk.objective_at(chunk.temperature)
    if isinstance(objective, Sigmoid):
        return _sigmoid_row_losses(objective, chunk)
    data = as_data(objective)
    if data is None:
        return _losses_of_function(chunk)
    if data.reads_same_class:
        same_class, certain = batch.posterior(rows)
        if same_class is not None:
            excluded = batch.excluded(rows)
            terms = data.pair_terms(same_class, excluded, certain)
            return _pair_row_losses(terms, excluded, chunk)
    return losses_from_sums(data, chunk, sums_of(data, chunk.logits, batch, rows))


def losses_from_sums(objective: LogSumObjective, chunk: Chunk, sums: list[Sums]) -> Result:
    """Losses and gradients, which overwrite exponentials, from the sums of all powers but 0."""
    batch, positive = chunk.batch, chunk.positive
    powers = [power for power in objective.powers if power != 0]
    log_sums = tuple([part.log for part in sums])  # [rows] each: all that the objective sees
    if len(powers) < len(objective.powers):
        logs = iter(log_sums)
        count = batch.log_counts(chunk.rows, positive.dtype)
        log_sums = tuple([count if power == 0 else next(logs) for power in objective.powers])
    if not chunk.differentiate:
        return objective.from_log_sums(positive, log_sums), None
    losses, of_positive, of_logs = objective.slopes(positive, log_sums)
    if chunk.upstream is not None:
        of_positive = of_positive * chunk.upstream
        of_logs = tuple(of_log * chunk.upstream for of_log in of_logs)
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
    direct = _of_temperature_alone(chunk, log_sums)
    return losses, RowGradients(of_logits, None, of_positive, direct)


def _of_temperature_alone(
    chunk: Chunk, log_sums: tuple[Float[Tensor, "#rows"], ...]
) -> Float[Tensor, ""] | None:
    """Gradient of the temperature through the objective alone, with logits as constants."""
    if not isinstance(chunk.temperature, Tensor):
        return None
    with torch.enable_grad():
        leaf = chunk.temperature.detach().requires_grad_()
        objective = as_data(chunk.objective_at(leaf))
        if objective is None:
            return None
        losses = objective.from_log_sums(chunk.positive, log_sums)
    if not losses.requires_grad:
        return None
    weights = torch.ones_like(losses) if chunk.upstream is None else chunk.upstream
    return torch.autograd.grad(losses, leaf, weights)[0]


def _losses_of_function(chunk: Chunk) -> Result:
    """Losses and gradients of a plain function of logits, which autograd differentiates."""
    with torch.set_grad_enabled(chunk.differentiate):
        leaves = [
            tensor.detach().requires_grad_(chunk.differentiate)
            for tensor in (chunk.positive, chunk.logits, chunk.temperature)
            if isinstance(tensor, Tensor)
        ]
        temperature = leaves[2] if len(leaves) == 3 else chunk.temperature
        objective = chunk.objective_at(temperature)
        losses = objective(leaves[0], leaves[1], valid=chunk.batch.mask(chunk.rows))
        losses = checked_losses(losses, chunk.positive)
    if not chunk.differentiate:
        return losses, None
    weights = torch.ones_like(losses) if chunk.upstream is None else chunk.upstream
    of_positive, of_logits, *direct = torch.autograd.grad(
        losses, leaves, weights, materialize_grads=True
    )
    return losses.detach(), RowGradients(of_logits, None, of_positive, *direct)


def _pair_row_losses(terms: PairTerms, excluded: Excluded, chunk: Chunk) -> Result:
    """Losses and gradients where a posterior gives candidates weights and targets.

    :class:`~bayescl.functional.objective.PairTerms` has the formula and its symbols, which are
    constants for the gradient. With S = sum_k w_k e^s_k, N = d sum_k o_k e^(kappa s_k) and
    q_j = g m_j N / (N + e^(kappa s_j)),

        dL/ds_j = sigmoid(log c S - s+) w_j e^s_j / S - h p_j
                  - q_j + (sum_i q_i) d o_j e^(kappa s_j) / N.
    """
    positive, logits = chunk.positive, chunk.logits
    excluded.fill_(logits, 0.0)  # it weighs nothing, whatever it holds
    counted = logits.clone()
    excluded.fill_(counted, -torch.inf)
    plain, *sharpened = exponentiate(
        counted, [1.0] if terms.sharpness == 1 else [1.0, terms.sharpness]
    )
    sums, log_sum = plain, plain.log
    if terms.weights is not None and terms.scale is not None:
        sums = plain.weighted(terms.weights) or exponentiate_weighted(logits.clone(), terms.weights)
        log_sum = sums.log + terms.scale.log()
    losses, taken = contrast(positive, log_sum), torch.zeros_like(positive)
    if terms.pulls is not None:
        taken = terms.share * terms.pulls.sum(dim=1)
        losses += taken * positive - terms.share * torch.linalg.vecdot(terms.pulls, logits)
    drawn = rest = None
    if terms.members is not None and terms.others is not None:
        sharp = sharpened[0] if sharpened else plain
        rest = sharp.weighted(terms.others)  # N / d
        exact = None if rest is None else sharp
        rest = rest or exponentiate_weighted(logits * terms.sharpness, terms.others)
        behind, drawn = _drawn(terms, logits, exact, rest)
        losses += behind
    if not chunk.differentiate:
        return losses, None
    slope, share, upstream = torch.sigmoid(log_sum - positive), terms.share, chunk.upstream
    if upstream is not None:
        slope, taken, share = slope * upstream, taken * upstream, share * upstream
    of_logits = sums.exponentials.mul_(sums.per_unit(slope)[:, None])
    if terms.pulls is not None:
        of_logits.addcmul_(terms.pulls, share[:, None], value=-1)
    if drawn is not None and rest is not None:
        if upstream is not None:
            drawn *= upstream[:, None]
        of_logits.addcmul_(rest.exponentials, rest.per_unit(drawn.sum(dim=1))[:, None]).sub_(drawn)
    return losses, RowGradients(of_logits, None, taken - slope)


def _drawn(
    terms: PairTerms, logits: Tensor, sharp: Sums | None, rest: Sums
) -> tuple[Float[Tensor, " rows"], Float[Tensor, "rows candidates"]]:
    """Losses of members that do not lead all others, and q, minus their direct gradient.

    ``sharp`` holds the exponentials e^(kappa s_j) if they are exact beside N.
    """
    members, draw, power = terms.members, terms.draw, terms.sharpness
    assert members is not None  # the caller has checked
    if sharp is None:  # log(1 + N / e^(kappa s_j)) = -logsigmoid(kappa s_j - log N)
        ahead = logits * power - (rest.log + terms.others_scale.log())[:, None]
        behind = -(members * logsigmoid(ahead)).sum(dim=1)
        drawn = ahead.neg_().sigmoid_().mul_(members).mul_(draw[:, None])
    else:  # in fewer passes: log(N + e^(kappa s_j)) - kappa s_j, all divided by e^shift
        total = terms.others_scale * rest.total  # N
        reached = sharp.exponentials + total[:, None]
        drawn = (members / reached).mul_((draw * total)[:, None])
        apart = reached.log_().sub_(logits, alpha=power).add_(sharp.shift[:, None])
        behind = torch.linalg.vecdot(members, apart)
    return draw / power * behind, drawn


def _sigmoid_row_losses(objective: Sigmoid, chunk: Chunk) -> Result:
    """Losses and gradients where every pair counts by itself: dL/ds_j = w_j sigmoid(s_j)."""
    batch, rows, positive, logits = chunk.batch, chunk.rows, chunk.positive, chunk.logits
    excluded = batch.excluded(rows)
    same_class = batch.posterior(rows)[0] if objective.reads_same_class else None
    valid = None if objective.weighting is None else batch.mask(rows)
    weights = objective.weights(logits, excluded, valid=valid, same_class=same_class)
    excluded.fill_(logits, -torch.inf)
    terms = softplus(logits)
    losses = (terms if weights is None else terms.mul_(weights)).sum(dim=1)
    of_positive = torch.zeros_like(positive)
    if objective.counts_positive:
        losses += softplus(-positive)
        of_positive -= torch.sigmoid(-positive)
    if not chunk.differentiate:
        return losses, None
    logits.sigmoid_()
    if weights is not None:
        logits *= weights
    if chunk.upstream is not None:
        of_positive *= chunk.upstream
    return losses, RowGradients(logits, chunk.upstream, of_positive)
