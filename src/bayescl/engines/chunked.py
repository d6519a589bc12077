"""The exact engine for large batches: a few anchors at a time, gradients in the forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bayescl._axes import Float, PerAnchor
from bayescl._checks import check_count
from bayescl.engines._once import differentiable_once
from bayescl.engines._rows import row_losses
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional.candidates import CandidateRule, ContrastiveBatch
from bayescl.functional.similarity import candidate_logits

_CPU_LOGITS = 2**17
"""Logits per chunk on the CPU, where that is not too few anchors for a matrix product."""

_DEVICE_LOGITS = 2**25
"""Logits per chunk elsewhere: enough work to fill a GPU."""


def default_chunk_size(batch: ContrastiveBatch) -> int:
    """Anchors per chunk where the caller does not say."""
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

    Exact: the value and the gradient are those of
    :func:`~bayescl.engines.dense_loss` up to rounding. Memory grows with
    ``chunk_size x candidates`` plus the size of the embeddings. Nothing is computed for inputs
    that need no gradient, and nothing waits for the device.

    Differentiable once: a second backward raises, and so do ``torch.func`` transforms; use the
    dense engine there, as ``engine="auto"`` does for the latter.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
        uniform: a promise that every loss will receive the same gradient from above, as under a
            mean or a sum. Then gradients are computed in the forward pass, while the logits are
            at hand; else the backward pass computes the logits anew.
        chunk_size: anchors at a time; a size that suits the device unless given.

    Returns:
        One loss per anchor.

    Raises:
        ValueError: if ``chunk_size`` is below 1.
    """
    if chunk_size is None:
        chunk_size = default_chunk_size(batch)
    check_count("chunk_size", chunk_size, 1)
    plan = _Plan(batch.rule, objective_at, chunk_size, uniform)
    tensors = (batch.anchors, batch.positives, batch.candidates)
    losses: Tensor = _ChunkedLoss.apply(*tensors, temperature, plan)
    return losses


@dataclass(frozen=True)
class _Plan:
    """What a run over the chunks needs besides tensors."""

    rule: CandidateRule
    objective_at: ObjectiveAt
    chunk_size: int
    uniform: bool


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
        batch = ContrastiveBatch(anchors, positives, candidates, plan.rule)
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
                saved = iter(ctx.saved_tensors)
                gradients = [
                    next(saved) * upstream[0] if present else None for present in ctx.present
                ]
            else:
                anchors, positives, candidates, *kept = ctx.saved_tensors
                batch = ContrastiveBatch(anchors, positives, candidates, plan.rule)
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
    sources = (batch.anchors, batch.positives, batch.candidates)
    of_anchors, of_positives, of_candidates = (
        torch.zeros_like(source) if want else None
        for source, want in zip(sources, wanted[:3], strict=True)
    )
    of_temperature: Tensor | None = None
    if wanted[3] and isinstance(temperature, Tensor):
        of_temperature = torch.zeros_like(temperature)
    losses = torch.empty_like(batch.anchors[:, 0])
    scaled = batch.anchors / temperature
    for start in range(0, batch.num_anchors, plan.chunk_size):
        rows = slice(start, min(start + plan.chunk_size, batch.num_anchors))
        anchors, positives, columns = scaled[rows], batch.positives[rows], batch.columns(rows)
        losses[rows], gradients = row_losses(
            plan.objective_at,
            temperature,
            (anchors * positives).sum(dim=1),
            candidate_logits(anchors, columns, 1.0),
            batch,
            rows,
            None if upstream is None else upstream[rows],
            differentiate=any(wanted),
        )
        if gradients is None:
            continue
        if of_anchors is not None or of_temperature is not None:
            pull = _from_columns(gradients.unlabeled, columns)
            pull = pull.addcmul_(gradients.positive[:, None], positives).div_(temperature)
            if of_anchors is not None:
                of_anchors[rows] = pull
            if of_temperature is not None:
                # Logits are proportional to the anchor over the temperature, so what the
                # temperature receives through them is read off the anchor's gradient.
                of_temperature -= (pull * anchors).sum()
                if gradients.temperature is not None:
                    of_temperature += gradients.temperature
        if of_positives is not None:
            torch.mul(gradients.positive[:, None], anchors, out=of_positives[rows])
        if of_candidates is not None:
            if columns.ndim == 2:
                of_candidates.addmm_(gradients.unlabeled.T, anchors)
            else:
                torch.mul(
                    gradients.unlabeled[:, :, None], anchors[:, None], out=of_candidates[rows]
                )
    return losses, [of_anchors, of_positives, of_candidates, of_temperature]


def _from_columns(weights: Tensor, columns: Tensor) -> Tensor:
    """Sum of columns, weighted for each anchor."""
    if columns.ndim == 2:
        return weights @ columns
    return torch.einsum("an,and->ad", weights, columns)
