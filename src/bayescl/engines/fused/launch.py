"""The log-sum-exp that the kernels compute, differentiable, and its launches. Imports Triton."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any, Literal, NamedTuple

import torch
import triton  # type: ignore[import-untyped]
from torch.autograd.function import once_differentiable

from bayescl.axes import Float, Tensor
from bayescl.engines.batch import CandidateRule
from bayescl.engines.fused import kernels
from bayescl.engines.fused.tiles import WARPS, Kernel, Precision, Tile, tile_for
from bayescl.functional.histogram import bin_means, inverse_widths
from bayescl.functional.objective import LogSumObjective


class FusedLogSumExp(torch.autograd.Function):
    """Log of each anchor's sum of (weighted) exponentials; backward recomputes the logits."""

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Float[Tensor, "anchors dim"],
        candidates: Float[Tensor, "candidates dim"],
        temperature: Float[Tensor, ""],
        rule: CandidateRule,
        precision: Precision,
        weighting: LogSumObjective,
        bins: int,
    ) -> Float[Tensor, " anchors"]:
        """Sum over all columns; ``weighting`` weighs them by their ranks, in ``bins`` bins."""
        anchors, candidates = anchors.contiguous(), candidates.contiguous()
        problem = Problem(anchors, candidates, rule, precision)
        with torch.cuda.device_of(anchors):  # where Triton launches
            binned = weights_in_bins(problem, weighting, bins)
            scale = _scale(temperature, anchors.device)
            base_2 = log_sums(problem, scale, binned)
        ctx.rule, ctx.precision, ctx.bins = rule, precision, binned.bins
        ctx.save_for_backward(anchors, candidates, temperature, base_2, *binned[1:])
        return base_2 * math.log(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Float[Tensor, " anchors"]) -> tuple[Tensor | None, ...]:
        """Compute the logits again, tile by tile, and what each side receives."""
        anchors, candidates, temperature, base_2, *table = ctx.saved_tensors
        problem = Problem(anchors, candidates, ctx.rule, ctx.precision)
        binned, scale = Binned(ctx.bins, *table), _scale(temperature, anchors.device)
        slopes = partial(gradients, problem, scale=scale, binned=binned, log_sum=base_2)
        upstream, per_unit = upstream.float(), scale * math.log(2)  # 1 / temperature
        to_anchors = to_candidates = to_temperature = None
        wants_anchors, wants_candidates, wants_temperature, *_ = ctx.needs_input_grad
        with torch.cuda.device_of(anchors):
            if wants_anchors or wants_temperature:
                gradient = slopes("anchor_gradient") * (upstream * per_unit)[:, None]
                if wants_temperature:
                    # d(z / t)/dt = -z / t^2, and the anchor's gradient is a sum of candidates / t.
                    total = -(gradient * anchors).sum() * per_unit
                    to_temperature = total.to(temperature.device, temperature.dtype)
                if wants_anchors:
                    to_anchors = gradient.to(anchors.dtype)
            if wants_candidates:
                # In half precision the products' operands must neither over- nor underflow.
                largest = upstream.abs().amax()
                unit = torch.where(largest > 0, upstream / largest, 0.0)
                gradient = slopes("candidate_gradient", upstream=unit) * (largest * per_unit)
                to_candidates = gradient.to(candidates.dtype)
        return to_anchors, to_candidates, to_temperature, *(None,) * 4


def _scale(temperature: Float[Tensor, ""], device: torch.device) -> Float[Tensor, ""]:
    """Factor that turns similarities into base-2 logits."""
    return math.log2(math.e) / temperature.detach().to(device, torch.float32)


class Binned(NamedTuple):
    """Each row's histogram, as the kernels look weights up in it; ``bins`` 0 for no weights."""

    bins: int = 0
    tops: Float[Tensor, " rows"] | None = None
    inverse_widths: Float[Tensor, " rows"] | None = None
    log_weights: Float[Tensor, "rows bins"] | None = None


@dataclass(frozen=True)
class Problem:
    """What every kernel reads; embeddings are contiguous, and all tensors on one device."""

    anchors: Float[Tensor, "anchors dim"]
    candidates: Float[Tensor, "candidates dim"]
    rule: CandidateRule
    precision: Precision

    @cached_property
    def inputs(self) -> tuple[Tensor | None, ...]:
        """The first arguments of every kernel."""
        rule = self.rule
        valid = None if rule.valid is None else rule.valid.contiguous().view(torch.uint8)
        own, positive = (
            None if places is None else places.contiguous() for places in (rule.own, rule.positive)
        )
        return self.anchors, self.candidates, own, positive, *_by_key(rule), valid

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A buffer on the same device."""
        return torch.empty(shape, dtype=dtype, device=self.anchors.device)

    def grid(self, kernel: Kernel, bins: int) -> tuple[int, int, Tile, dict[str, Any]]:
        """Blocks that programs own, shares that they walk over, the tile, arguments by name."""
        (rows, dim), columns = self.anchors.shape, len(self.candidates)
        masked = self.rule.num_keys > 0 or self.rule.valid is not None
        tile = tile_for(kernel, self.anchors.dtype, dim, bins, self.precision, masked=masked)
        owned, visited = triton.cdiv(rows, tile.rows), triton.cdiv(columns, tile.columns)
        step = tile.columns
        if kernel == "candidate_gradient":  # programs own columns and walk over rows
            owned, visited, step = visited, owned, tile.rows
        # With few blocks, most of the device would idle; more shares than it can run at a time
        # would only cost memory for partial results.
        shares = min(visited, triton.cdiv(_programs(self.anchors.device), owned))
        blocks_each = triton.cdiv(visited, shares)
        arguments = {
            "num_anchors": rows,
            "num_candidates": columns,
            "share": blocks_each * step,
            "num_keys": self.rule.num_keys,
            "dim": dim,
            "block_rows": tile.rows,
            "block_columns": tile.columns,
            "block_dim": tile.dim,
            "precision": self.precision,
            "num_warps": WARPS,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,  # Triton 3.9 warns where it is left open
        }
        return owned, triton.cdiv(visited, blocks_each), tile, arguments


def weights_in_bins(problem: Problem, weighting: LogSumObjective, bins: int) -> Binned:
    """Each row's histogram turned into weights; nothing where there are no weights."""
    if weighting.ranks is None:
        return Binned()
    low, top = similarity_ranges(problem)
    inverse = inverse_widths(low, top)
    top = torch.where(top == -torch.inf, 0.0, top)  # rows without candidates: nothing to place
    blocks, shares, _, arguments = problem.grid("histogram", bins)
    counts = problem.empty(len(top), bins, dtype=torch.int32).zero_()
    arguments |= {"bins": bins, "shared_counts": counts_in_shared_memory()}
    kernels.histogram_kernel[blocks, shares](*problem.inputs, top, inverse, counts, **arguments)
    upper = weighting.ranks == "upper"
    weights = bin_means(counts, inverse, weighting.weights_of_cdf, upper=upper)
    return Binned(bins, top, inverse, weights.log2_())


def similarity_ranges(problem: Problem) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Smallest and largest similarity of each row; inf and -inf where it has no candidate."""
    blocks, shares, _, arguments = problem.grid("range", 0)
    rows = len(problem.anchors)
    lows, tops = problem.empty(shares, rows), problem.empty(shares, rows)
    kernels.range_kernel[blocks, shares](*problem.inputs, lows, tops, **arguments)
    return lows.amin(0), tops.amax(0)


def log_sums(problem: Problem, scale: Float[Tensor, ""], binned: Binned) -> Float[Tensor, " rows"]:
    """Base-2 log of each row's sum of weighted exponentials."""
    bins, *table = binned
    blocks, shares, _, arguments = problem.grid("log_sum", bins)
    partial = problem.empty(shares, len(problem.anchors))
    kernels.log_sum_kernel[blocks, shares](
        *problem.inputs, scale, *table, partial, bins=bins, **arguments
    )
    if shares == 1:
        return partial[0]
    return torch.logsumexp(partial * math.log(2), dim=0) / math.log(2)


def gradients(
    problem: Problem,
    kernel: Literal["anchor_gradient", "candidate_gradient"],
    scale: Float[Tensor, ""],
    binned: Binned,
    log_sum: Float[Tensor, " rows"],
    upstream: Float[Tensor, " rows"] | None = None,
) -> Float[Tensor, "owners dim"]:
    """Sums of the other side's rows, weighted by the shares of anchors' sums, and by upstream."""
    of_candidates, (bins, *table) = kernel == "candidate_gradient", binned
    owners, dim = (problem.candidates if of_candidates else problem.anchors).shape
    blocks, shares, tile, arguments = problem.grid(kernel, bins)
    partial = problem.empty(shares, owners, dim)
    arguments |= {"bins": bins, "block_out": tile.out, "of_candidates": of_candidates}
    kernels.gradient_kernel[blocks, shares, triton.cdiv(dim, tile.out)](
        *problem.inputs, scale, *table, log_sum, upstream, partial, **arguments
    )
    total = partial[0] if shares == 1 else partial.sum(0)
    return total.mul_(2.0 ** -float(kernels.SHIFT.value))


def counts_in_shared_memory() -> bool:
    """Whether a tile's histogram is counted in shared memory before it is added to memory."""
    # Before 3.8, Triton compares every element with every bin, which is slower than atomics.
    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (3, 8)


def _by_key(rule: CandidateRule) -> tuple[Tensor | None, Tensor | None]:
    """Anchors' and candidates' groups, all rows of one key after the other."""
    mine, theirs = rule.anchor_groups, rule.candidate_groups
    if mine is None or theirs is None or rule.num_keys == 0:
        return None, None
    if rule.num_keys == 1:
        return mine.contiguous(), theirs.contiguous()
    # Places in the keys' order, in 32 bits: several of 64 would take too many registers.
    keys = torch.cat([mine, theirs]).T.contiguous()
    places = torch.searchsorted(keys.sort(dim=1).values, keys, out_int32=True)
    return places[:, : len(mine)].contiguous(), places[:, len(mine) :].contiguous()


@lru_cache
def _programs(device: torch.device) -> int:
    """How many programs to aim at; in Triton's interpreter enough to cut loops into shares."""
    if device.type != "cuda":
        return 4
    return 2 * torch.cuda.get_device_properties(device).multi_processor_count
