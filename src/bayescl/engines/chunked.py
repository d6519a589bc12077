"""The exact engine for large batches: a few anchors at a time, gradients in the forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayescl.axes import Float, PerAnchor
from bayescl.checks import check_count
from bayescl.engines._once import differentiable_once
from bayescl.engines._one_piece import one_piece, softmax_in_one_piece
from bayescl.engines._rows import row_losses
from bayescl.engines._running_gradients import RunningGradients
from bayescl.engines._threads import in_threads
from bayescl.engines.batch import CandidateRule, ContrastiveBatch, Labels, SameClass
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional.similarity import candidate_logits
from bayescl.functional.sorting import can_look

_CPU_LOGITS = 2**18
"""Logits per chunk on the CPU, unless that leaves too few anchors for a matrix product."""

_WORTH_THREADS = 2**21
"""Number of logits from which chunks are divided among threads. Each thread then has a core to
itself, and none waits for another after every operation."""

_MOST_WORKERS = 8
"""Each worker holds a gradient of all candidates."""

_DEVICE_LOGITS = 2**25
"""Logits per chunk elsewhere: enough work to fill a GPU."""


def default_chunk_size(batch: ContrastiveBatch) -> int:
    """Default number of anchors per chunk."""
    each = batch.num_candidates
    if batch.candidates.ndim == 3:
        each *= batch.candidates.shape[-1]
    if batch.anchors.device.type == "cpu":
        return max(128, _CPU_LOGITS // max(1, each))
    return max(128, _DEVICE_LOGITS // max(1, each))


def chunked_loss(
    batch: ContrastiveBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    uniform: bool = False,
    chunk_size: int | None = None,
) -> PerAnchor:
    """Compute one loss per anchor without ever holding the full matrix of logits.

    Exact: value and gradient equal those of :func:`~bayescl.engines.dense_loss` up to rounding.
    Memory grows with ``chunk_size x candidates`` plus the size of the embeddings. Nothing is
    computed for inputs that need no gradient, and nothing waits for the device.

    Differentiable once: a second backward pass and ``torch.func`` transforms raise. Use the dense
    engine for both; ``engine="auto"`` chooses it under transforms.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
        uniform: a promise that every loss will receive the same upstream gradient, as under a mean
            or a sum. Gradients are then computed in the forward pass, while the logits are at hand;
            otherwise the backward pass recomputes the logits.
        chunk_size: anchors at a time; default: chosen for the device.

    Returns:
        One loss per anchor.

    Raises:
        ValueError: if ``chunk_size`` is below 1.
    """
    if chunk_size is None:
        chunk_size = default_chunk_size(batch)
    check_count("chunk_size", chunk_size, 1)
    own_rows = batch.candidates is batch.anchors and batch.rule.positive is not None
    plan = _Plan(
        batch.rule, (batch.same_class, batch.labels), objective_at, chunk_size, uniform, own_rows
    )
    tensors = (batch.anchors, batch.positives, batch.candidates)
    losses: Tensor = _ChunkedLoss.apply(*tensors, temperature, plan)
    return losses


@dataclass(frozen=True)
class _Plan:
    """Settings of a run over the chunks."""

    rule: CandidateRule
    known: tuple[SameClass | None, Labels | None]
    objective_at: ObjectiveAt
    chunk_size: int
    uniform: bool
    own_rows: bool
    """Whether anchors and positives are themselves rows of the candidates."""


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        positives: Tensor,
        candidates: Tensor,
        temperature: float | Tensor,
        plan: _Plan,
    ) -> Tensor:
        batch = ContrastiveBatch(anchors, positives, candidates, plan.rule, *plan.known)
        ctx.plan = plan
        wanted = ctx.needs_input_grad[:4]
        if not any(wanted):
            return _run(batch, temperature, plan)[0]
        if plan.uniform:
            losses, gradients = _run(batch, temperature, plan, wanted)
            ctx.present = [gradient is not None for gradient in gradients]
            ctx.save_for_backward(*(one for one in gradients if one is not None))
        else:
            losses = _run(batch, temperature, plan)[0]
            ctx.temperature = None if isinstance(temperature, Tensor) else temperature
            kept = (temperature,) if isinstance(temperature, Tensor) else ()
            ctx.save_for_backward(anchors, positives, candidates, *kept)
        return losses

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        plan: _Plan = ctx.plan
        with torch.no_grad():
            if plan.uniform:
                saved, share = iter(ctx.saved_tensors), upstream[0]
                gradients = [next(saved) * share if present else None for present in ctx.present]
            else:
                anchors, positives, candidates, *kept = ctx.saved_tensors
                batch = ContrastiveBatch(anchors, positives, candidates, plan.rule, *plan.known)
                temperature = kept[0] if kept else ctx.temperature
                _, gradients = _run(batch, temperature, plan, ctx.needs_input_grad[:4], upstream)
        return *differentiable_once(*gradients), None


def _run(
    batch: ContrastiveBatch,
    temperature: float | Tensor,
    plan: _Plan,
    wanted: tuple[bool, ...] = (False,) * 4,
    upstream: Tensor | None = None,
) -> tuple[Tensor, list[Tensor | None]]:
    """Losses, and the wanted gradients of their sum weighted by ``upstream`` (ones if absent)."""
    if plan.own_rows and plan.chunk_size >= batch.num_anchors:
        found = _run_in_one_piece(batch, temperature, plan, wanted, upstream)
        if found is not None:
            return found
    scaled = batch.anchors / temperature
    starts = range(0, batch.num_anchors, plan.chunk_size)
    workers = _workers(batch, len(starts))
    totals = [RunningGradients.zeros(batch, temperature, wanted, own_rows=plan.own_rows)]
    totals += [totals[0].for_another_worker() for _ in range(workers - 1)]
    each: list[Tensor] = [scaled] * len(starts)

    def work(number: int) -> None:
        for chunk in range(number, len(starts), workers):
            start = starts[chunk]
            rows = slice(start, min(start + plan.chunk_size, batch.num_anchors))
            each[chunk] = _chunk(
                batch,
                scaled[rows],
                rows,
                temperature,
                plan,
                totals[number] if any(wanted) else None,
                None if upstream is None else upstream[rows],
            )

    in_threads(work, workers)
    losses = each[0] if len(each) == 1 else torch.cat([scaled[:0, 0], *each])
    return losses, totals[0].joined(totals[1:])


def _run_in_one_piece(
    batch: ContrastiveBatch,
    temperature: float | Tensor,
    plan: _Plan,
    wanted: tuple[bool, ...],
    upstream: Tensor | None,
) -> tuple[Tensor, list[Tensor | None]] | None:
    """The same without chunks; None if the short way does not apply."""
    objective = softmax_in_one_piece(plan.objective_at(temperature), batch)
    if objective is None:
        return None
    scale = temperature.item() if isinstance(temperature, Tensor) else temperature
    found = one_piece(objective, batch, scale, upstream, differentiate=any(wanted))
    if found is None:
        return None
    of_rows, of_temperature = found.gradient, None
    if of_rows is not None and wanted[3]:
        # Logits are products of rows over the temperature, and either row received its share.
        of_temperature = (of_rows * batch.candidates).sum() / (-2 * scale)
    return found.losses, [None, None, of_rows if wanted[2] else None, of_temperature]


def _workers(batch: ContrastiveBatch, chunks: int) -> int:
    """Number of threads to divide chunks among; 1 if torch's own threads do as well."""
    if not can_look(batch.anchors) or batch.num_anchors * batch.num_candidates < _WORTH_THREADS:
        return 1
    return max(1, min(torch.get_num_threads(), chunks, _MOST_WORKERS))


def _chunk(
    batch: ContrastiveBatch,
    anchors: Tensor,
    rows: slice,
    temperature: float | Tensor,
    plan: _Plan,
    total: RunningGradients | None,
    upstream: Tensor | None,
) -> Tensor:
    """Losses of a few ``anchors``, already divided by the temperature; adds to the gradients."""
    positives, columns = batch.positives[rows], batch.columns(rows)
    if columns.ndim == 2:
        logits = anchors @ columns.T
    else:
        # A product for each anchor may lie otherwise, and places in it are written to.
        logits = candidate_logits(anchors, columns, 1.0).contiguous()
    place = batch.rule.positive
    place = place[rows, None] if plan.own_rows and place is not None else None
    if place is None:
        positive = (anchors * positives).sum(dim=1)
    else:
        positive = logits.gather(1, place).squeeze(1)
    losses, gradients = row_losses(
        plan.objective_at,
        temperature,
        positive,
        logits,
        batch,
        rows,
        upstream,
        differentiate=total is not None,
    )
    if gradients is None or total is None:
        return losses
    of_logits, factor = gradients.unlabeled, gradients.factor
    if place is not None:
        of_logits.scatter_(1, place, gradients.share[:, None])
    if total.anchors is not None or total.temperature is not None or plan.own_rows:
        pull = _from_columns(of_logits, columns)
        if factor is not None:
            pull *= factor[:, None]
        if place is None:
            pull.addcmul_(gradients.positive[:, None], positives)
        pull /= temperature
        if plan.own_rows and total.candidates is not None:
            total.candidates[rows] += pull
        if total.anchors is not None:
            total.anchors[rows] = pull
        if total.temperature is not None:
            # Logits are proportional to the anchor over the temperature, so what the temperature
            # receives through them is read off the anchor's gradient.
            total.temperature -= (pull * anchors).sum()
            if gradients.temperature is not None:
                total.temperature += gradients.temperature
    if total.positives is not None:
        torch.mul(gradients.positive[:, None], anchors, out=total.positives[rows])
    if total.candidates is not None:
        if factor is not None:
            anchors = anchors * factor[:, None]
        if columns.ndim == 2:
            total.candidates.addmm_(of_logits.T, anchors)
        else:
            torch.mul(of_logits[:, :, None], anchors[:, None], out=total.candidates[rows])
    return losses


def _from_columns(weights: Tensor, columns: Tensor) -> Tensor:
    """Sum of columns, weighted for each anchor."""
    if columns.ndim == 2:
        return weights @ columns
    return torch.einsum("an,and->ad", weights, columns)
