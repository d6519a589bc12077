"""The fused engine: from a batch to the input of the kernels, and from their sums to losses."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        f'engine="fused" needs Triton ({error}), which comes with PyTorch for CUDA on Linux; '
        'elsewhere, use engine="auto"'
    ) from error

from bayescl._engine import fused_kernels as kernels
from bayescl._engine.blocked import differentiable_once
from bayescl._engine.fused_kernels import Given, Sides
from bayescl._engine.reference import ObjectiveAt
from bayescl._ops.objective import LogSumObjective
from bayescl._ops.ranks import BINS
from bayescl.batch import Batch, TargetRule
from bayescl.rows import UNKNOWN, Rows

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_BLOCK = 16 if IS_INTERPRETED else 64  # at most
_COORDINATES = 2**13  # of a block's embeddings and teachers; more may not fit in shared memory
_WIDEST = 256


def is_covered(batch: Batch, temperature: float | Tensor, objective: Any) -> bool:
    """Return whether the kernels can compute a batch; the blocked engine computes all others."""
    anchors, every = batch.anchors, [batch.anchors, *batch.columns]
    if batch.positives is not None:
        every.append(batch.positives)
    return (
        (anchors.embeddings.is_cuda or IS_INTERPRETED)
        and all(rows.embeddings.dtype == torch.float32 for rows in every)
        and not any(block.are_own for block in batch.columns)
        and anchors.embeddings.shape[1] <= _WIDEST
        and isinstance(objective, LogSumObjective)
        and 1 <= len(objective.sum_powers) <= 2
        and (objective.ranks is None or (batch.are_units and isinstance(temperature, float)))
        and (batch.target is None or _is_target_covered(batch))
    )


def _is_target_covered(batch: Batch) -> bool:
    labels, teacher = batch.anchors.labels, batch.anchors.teacher
    return (
        isinstance(batch.target, TargetRule)
        and isinstance(batch.target.temperature, float)
        and (labels is None or not labels.is_floating_point())
        and (teacher is None or teacher.shape[1] <= _WIDEST)
    )


def losses_if_covered(
    batch: Batch, temperature: float | Tensor, objective_at: ObjectiveAt
) -> Tensor | None:
    """Compute one loss per pair, or return ``None`` if the kernels do not cover the batch."""
    objective = objective_at(temperature)
    if not is_covered(batch, temperature, objective) or not isinstance(objective, LogSumObjective):
        return None
    if not batch.are_units:
        batch = batch.map_rows(_without_infinity)
    anchors = batch.anchors.embeddings / temperature
    columns = _joined([block.embeddings for block in batch.columns])
    given = _given(batch, anchors.detach(), columns.detach())
    if objective.ranks is not None:
        given = given._replace(bins=BINS, reach=1 / float(temperature))
        given = given._replace(log_weights=_weights_of_bins(given, objective))
    powers = [float(power) for power in objective.sum_powers]
    sums = _Sums.apply(anchors, columns, given, (*powers, 0.0)[:2])
    if batch.anchor_of is not None:
        anchors, sums = anchors[batch.anchor_of], sums[:, batch.anchor_of]
    positive = (anchors * batch.pair_positives.embeddings).sum(dim=1)
    first, second, mean, log_share, number = sums.unbind()
    log_sums = [first, second][: len(powers)]
    if len(log_sums) < len(objective.powers):
        log_sums.insert(objective.powers.index(0), number.log())
    losses = objective.from_log_sums(positive, tuple(log_sums))
    if isinstance(batch.target, TargetRule):
        positive_share = batch.target.positive_share
        if positive_share is None:  # the positive is one more candidate, of similarity 1
            target = (log_share - given.scale).sigmoid()
        else:
            target = (1 - positive_share) * (log_share > -torch.inf)
        losses = losses + target * (positive - mean)
    return losses if batch.weight is None else losses * batch.weight


def _without_infinity(rows: Rows) -> Rows:
    """Replace infinite coordinates by NaN, so that no exponential of -inf hides them."""
    embeddings = rows.embeddings
    return replace(rows, embeddings=torch.where(embeddings.isfinite(), embeddings, torch.nan))


def _given(batch: Batch, anchors: Tensor, columns: Tensor) -> Given:
    """Collect the input of the kernels, without weights by rank."""
    valid = batch.valid
    if batch.anchor_of is not None and batch.positive is not None and batch.layout != "in_batch":
        valid = batch.mask()  # a column may be the positive of several anchors
    given = Given(
        n=len(anchors),
        m=len(columns),
        rows=_sides(anchors, columns),
        groups=_exclusive_keys(batch),
        domains=_metadata(batch, "domains"),
        valid=None if valid is None else valid.contiguous().view(torch.uint8),
    )
    if not isinstance(batch.target, TargetRule):
        return given
    teacher = _metadata(batch, "teacher")
    if teacher is None:  # labels alone
        teacher = _sides(anchors.new_zeros(given.n, 1), anchors.new_zeros(given.m, 1))
    scale = 1 / float(batch.target.temperature)
    return given._replace(teacher=teacher, scale=scale, labels=_metadata(batch, "labels"))


def _sides(anchors: Tensor, columns: Tensor) -> Sides:
    width = anchors.shape[1]
    padded = max(16, triton.next_power_of_2(width))
    anchors, columns = anchors.contiguous(), columns.contiguous()
    return Sides(anchors, columns, tl.constexpr(width), tl.constexpr(padded))


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _metadata(batch: Batch, name: str) -> Sides | None:
    """Return a field of the anchors and of all columns, unknown in blocks that lack it."""
    mine = getattr(batch.anchors, name)
    if mine is None:
        return None
    unknown, parts = 0 if name == "teacher" else UNKNOWN, []
    for block in batch.columns:
        part = getattr(block, name)
        if part is None:
            part = mine.new_full((len(block), *mine.shape[1:]), unknown)
        parts.append(part.reshape(len(block), -1))
    return _sides(mine.reshape(len(mine), -1), _joined(parts))


def _exclusive_keys(batch: Batch) -> Sides | None:
    """Return the groups, with keys that exclude the anchor itself and its positives."""
    place = torch.arange(batch.num_candidates, device=batch.anchors.embeddings.device)
    keys = []
    if batch.own is not None:
        keys.append((batch.own, place))
    if batch.positive is not None and batch.anchor_of is None:
        keys.append((batch.positive, place))
    elif batch.positive is not None and batch.anchor_of is not None and batch.layout == "in_batch":
        # A column is the positive of one anchor at most. The key is the number of this anchor.
        owner = torch.full_like(place, UNKNOWN)
        owner[batch.positive] = batch.anchor_of
        keys.append((torch.arange(batch.num_anchors, device=place.device), owner))
    groups = _metadata(batch, "groups")
    if groups is not None:
        keys += zip(groups.anchors.unbind(1), groups.columns.unbind(1), strict=True)
    if not keys:
        return None
    mine, theirs = zip(*keys, strict=True)
    return _sides(torch.stack(mine, dim=1), torch.stack(theirs, dim=1))


def _weights_of_bins(given: Given, objective: LogSumObjective) -> Tensor:
    """Return the log weight of each bin, [n, bins], by the ranks of its candidates."""
    counts = torch.zeros(given.n, given.bins, dtype=torch.int32, device=given.rows.anchors.device)
    _launch(kernels.histogram, given.n, given, counts)
    through = counts.cumsum(dim=1, dtype=torch.int32)
    doubled = 2 * through - (counts if objective.ranks == "mid" else 0)
    cdf = doubled.clamp(min=1) / (2 * through[:, -1:].clamp(min=1))
    return objective.weights_of_cdf(cdf.float()).log().contiguous()


def _launch(kernel: Any, rows: int, given: Given, *more: Any) -> None:
    """Run one program per block of rows, on the device of the embeddings."""
    width = given.rows.padded.value
    if given.teacher is not None:
        width += given.teacher.padded.value
    block = min(_BLOCK, _COORDINATES // triton.next_power_of_2(width))
    with torch.cuda.device_of(given.rows.anchors):
        kernel[(triton.cdiv(rows, block),)](given, *more, BM=block, BN=block)


class _Sums(torch.autograd.Function):
    """Rows of ``SUMS``, [5, n]: two log-sums, M, Y, and the number of candidates.

    Y and the number are not differentiated.
    """

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, columns: Tensor, given: Given, powers: tuple[float, float]
    ) -> Tensor:
        sums = anchors.new_zeros(5, given.n)
        _launch(kernels.log_sums, given.n, given, sums, *powers)
        ctx.save_for_backward(anchors, columns, sums)
        ctx.how = given, powers
        return sums

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        anchors, columns, sums = ctx.saved_tensors
        given, powers = ctx.how
        # A row without candidates, or without weights above 0, has no gradient.
        empty = sums.detach() == -torch.inf
        logs, slopes = sums.detach().masked_fill(empty, 0.0), slopes.masked_fill(empty, 0.0)
        gradients: list[Tensor | None] = []
        for rows, are_anchors in ((anchors, True), (columns, False)):
            gradient = None
            if ctx.needs_input_grad[0 if are_anchors else 1]:
                gradient = torch.empty(rows.shape, device=rows.device)
                how = given, logs, slopes.detach(), gradient, are_anchors, *powers
                _launch(kernels.gradient, len(rows), *how)
                if torch.is_grad_enabled():
                    gradient = differentiable_once(gradient, slopes, anchors, columns)
            gradients.append(gradient)
        return (*gradients, None, None)
