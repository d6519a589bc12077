"""The fused log-sum-exp as one differentiable function; everything else is torch on rows."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import once_differentiable

from bayescl.axes import Float, Int, Tensor
from bayescl.engines._fused_tiles import Precision
from bayescl.engines.batch import CandidateRule
from bayescl.functional.histogram import inverse_widths, log2_weights
from bayescl.functional.objective import LogSumObjective

if TYPE_CHECKING:
    from bayescl.engines._fused_launch import Binned


@dataclass(frozen=True)
class RowSums:
    """What the kernels need besides embeddings and temperature."""

    rule: CandidateRule
    precision: Precision
    weighting: LogSumObjective | None = None
    """Weighs candidates by their ranks, in ``bins`` bins."""
    bins: int = 0
    count: bool = False


class FusedLogSumExp(torch.autograd.Function):
    """Log of each anchor's sum of (weighted) exponentials, and the number of its terms.

    Keeps the embeddings, two numbers and one histogram per row for the backward pass, which
    recomputes the logits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Float[Tensor, "anchors dim"],
        candidates: Float[Tensor, "candidates dim"],
        temperature: Float[Tensor, ""],
        sums: RowSums,
    ) -> tuple[Float[Tensor, " anchors"], Int[Tensor, " anchors"] | None]:
        """Sum over all columns, without the matrix of logits."""
        from bayescl.engines import _fused_launch as launch

        problem = launch.Problem(
            anchors.contiguous(), candidates.contiguous(), _contiguous(sums.rule), sums.precision
        )
        scale = _scale(temperature, anchors.device)
        with _on(anchors.device):
            binned = _binned(problem, sums.weighting, sums.bins)
            base_2, counts = launch.log_sums(problem, scale, binned, sums.count)
        ctx.problem_rule, ctx.precision, ctx.bins = problem.rule, sums.precision, binned.bins
        ctx.save_for_backward(
            problem.anchors,
            problem.candidates,
            temperature,
            base_2,
            binned.tops,
            binned.inverse_widths,
            binned.log_weights,
        )
        if counts is not None:
            ctx.mark_non_differentiable(counts)
        return base_2 * math.log(2), counts

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, upstream: Float[Tensor, " anchors"], _: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """Compute the logits again, tile by tile, and what each side receives."""
        from bayescl.engines import _fused_launch as launch

        anchors, candidates, temperature, base_2, *table = ctx.saved_tensors
        problem = launch.Problem(anchors, candidates, ctx.problem_rule, ctx.precision)
        binned = launch.Binned(ctx.bins, *table)
        scale = _scale(temperature, anchors.device)
        upstream = upstream.float()
        per_unit = scale * math.log(2)
        to_anchors = to_candidates = to_temperature = None
        wants_anchors, wants_candidates, wants_temperature, _ = ctx.needs_input_grad
        with _on(anchors.device):
            if wants_anchors or wants_temperature:
                gradient = launch.anchor_gradients(problem, scale, binned, base_2)
                gradient *= (upstream * per_unit)[:, None]
                if wants_temperature:
                    # d(s / t)/dt = -s / t^2, and the anchor's gradient is a sum of candidates / t.
                    total = -(gradient * anchors).sum() * per_unit
                    to_temperature = total.to(temperature.device, temperature.dtype)
                if wants_anchors:
                    to_anchors = gradient.to(anchors.dtype)
            if wants_candidates:
                # In half precision the products' operands must neither over- nor underflow.
                largest = upstream.abs().amax()
                unit = torch.where(largest > 0, upstream / largest, 0.0)
                gradient = launch.candidate_gradients(problem, scale, binned, base_2, unit)
                to_candidates = (gradient * (largest * per_unit)).to(candidates.dtype)
        return to_anchors, to_candidates, to_temperature, None


def _binned(problem: Any, weighting: LogSumObjective | None, bins: int) -> Binned:
    """Each row's histogram turned into weights; nothing where there are no weights."""
    from bayescl.engines import _fused_launch as launch

    if weighting is None or weighting.ranks is None:
        return launch.Binned(0)
    low, top = launch.similarity_ranges(problem)
    inverse = inverse_widths(low, top)
    top = torch.where(top == -torch.inf, 0.0, top)  # rows without candidates: nothing to place
    counts = launch.histograms(problem, bins, top, inverse)
    table = log2_weights(counts, inverse, weighting.weights_of_cdf, weighting.ranks)
    return launch.Binned(bins, top, inverse, table)


def _scale(temperature: Float[Tensor, ""], device: torch.device) -> Float[Tensor, ""]:
    """Factor that turns similarities into base-2 logits."""
    return math.log2(math.e) / temperature.detach().to(device, torch.float32)


def _contiguous(rule: CandidateRule) -> CandidateRule:
    tensors = (rule.own, rule.positive, rule.anchor_groups, rule.candidate_groups, rule.valid)
    own, positive, mine, theirs, valid = (
        None if tensor is None else tensor.contiguous() for tensor in tensors
    )
    if mine is None or theirs is None:
        mine = theirs = None
    return CandidateRule(own, positive, mine, theirs, valid)


def _on(device: torch.device) -> AbstractContextManager[Any]:
    """Triton launches on the current device, which need not be the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
