"""Launches of the fused kernels: buffers, grids and the sums over partial results.

Imports Triton; imported when the fused engine first runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import torch
import triton  # type: ignore[import-untyped]

from bayescl.axes import Float, Int, Tensor
from bayescl.engines import _fused_backward_kernels as backward_kernels
from bayescl.engines import _fused_forward_kernels as forward_kernels
from bayescl.engines import _fused_tuning as tuning
from bayescl.engines._fused_tiles import Kernel, Precision, Tile, shares, tiles_for
from bayescl.engines.batch import CandidateRule

Result = TypeVar("Result")

_PROGRAMS_WITHOUT_DEVICE = 4
"""Programs to aim at in Triton's interpreter: enough to cut loops into shares."""


@dataclass(frozen=True)
class Binned:
    """Each row's histogram, as the kernels look weights up in it; ``bins`` 0 for no weights."""

    bins: int
    tops: Float[Tensor, " rows"] | None = None
    inverse_widths: Float[Tensor, " rows"] | None = None
    log_weights: Float[Tensor, "rows bins"] | None = None


@dataclass(frozen=True)
class Problem:
    """What every kernel reads; all tensors contiguous and on one device.

    Attributes:
        anchors: rows of the matrix of logits.
        candidates: its columns.
        rule: which columns count for which rows.
        precision: how float32 is multiplied.
        tile: used by every kernel; default: the fastest on this device, or each kernel's own.
    """

    anchors: Float[Tensor, "anchors dim"]
    candidates: Float[Tensor, "candidates dim"]
    rule: CandidateRule
    precision: Precision
    tile: Tile | None = None

    @cached_property
    def common(self) -> tuple[Tensor | None, ...]:
        """The first arguments of every kernel."""
        rule = self.rule
        valid = None if rule.valid is None else rule.valid.view(torch.uint8)
        return (
            self.anchors,
            self.candidates,
            rule.own,
            rule.positive,
            *_by_key(rule),
            valid,
        )

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Anchors, candidates, coordinates."""
        return len(self.anchors), len(self.candidates), self.anchors.shape[1]

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """A buffer on the same device."""
        return torch.empty(shape, dtype=dtype, device=self.anchors.device)

    def tiles(self, kernel: Kernel, bins: int) -> tuple[Tile, ...]:
        """The tiles that a kernel may use for these embeddings, the default first."""
        masked = self.rule.num_keys > 0 or self.rule.valid is not None
        dtype, dim = self.anchors.dtype, self.sizes[2]
        return tiles_for(kernel, dtype, dim, bins, self.precision, masked=masked)

    def launched(self, kernel: Kernel, bins: int, launch: Callable[[Tile], Result]) -> Result:
        """The result of a launch with the best tile that is known or can be measured."""
        if self.tile is not None:
            return launch(self.tile)
        tiles, (rows, columns, dim) = self.tiles(kernel, bins), self.sizes
        size = tuning.size_class(rows * columns)
        if len(tiles) == 1 or size < 0 or not tuning.may_measure(self.anchors.device):
            return launch(tiles[0])
        work = tuning.Work(
            kernel,
            self.anchors.device,
            self.anchors.dtype,
            self.precision,
            dim,
            bins,
            size,
        )

        def milliseconds(tile: Tile) -> float:
            return tuning.milliseconds_on_device(lambda: launch(tile))

        return launch(tuning.fastest_tile(work, tiles, milliseconds))


def similarity_ranges(problem: Problem) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Smallest and largest similarity of each row; inf and -inf where it has no candidate."""
    (rows, columns, dim), keys = problem.sizes, problem.rule.num_keys

    def launch(tile: Tile) -> tuple[Tensor, Tensor]:
        split, share = _split(rows, columns, tile.rows, tile.columns, problem.anchors.device)
        lows, tops = problem.empty(split, rows), problem.empty(split, rows)
        forward_kernels.range_kernel[(triton.cdiv(rows, tile.rows), split)](
            *problem.common, lows, tops, rows, columns, share, keys, dim, **_options(problem, tile)
        )
        return lows.amin(0), tops.amax(0)

    return problem.launched("range", 0, launch)


def histograms(
    problem: Problem,
    bins: int,
    tops: Float[Tensor, " rows"],
    inverse_widths: Float[Tensor, " rows"],
) -> Int[Tensor, "rows bins"]:
    """How many candidates of each row fall into each of its bins."""
    rows, columns, dim = problem.sizes

    def launch(tile: Tile) -> Tensor:
        split, share = _split(rows, columns, tile.rows, tile.columns, problem.anchors.device)
        counts = torch.zeros(rows, bins, dtype=torch.int32, device=problem.anchors.device)
        forward_kernels.histogram_kernel[(triton.cdiv(rows, tile.rows), split)](
            *problem.common,
            tops,
            inverse_widths,
            counts,
            rows,
            columns,
            share,
            problem.rule.num_keys,
            dim,
            bins,
            shared_counts=counts_in_shared_memory(),
            **_options(problem, tile),
        )
        return counts

    return problem.launched("histogram", bins, launch)


def log_sums(
    problem: Problem, scale: Float[Tensor, ""], binned: Binned, count: bool
) -> tuple[Float[Tensor, " rows"], Int[Tensor, " rows"] | None]:
    """Base-2 log of each row's sum of weighted exponentials, and how many it sums."""
    rows, columns, dim = problem.sizes

    def launch(tile: Tile) -> tuple[Tensor, Tensor | None]:
        split, share = _split(rows, columns, tile.rows, tile.columns, problem.anchors.device)
        partial = problem.empty(split, rows)
        counts = problem.empty(split, rows, dtype=torch.int32) if count else None
        forward_kernels.log_sum_kernel[(triton.cdiv(rows, tile.rows), split)](
            *problem.common,
            scale,
            binned.tops,
            binned.inverse_widths,
            binned.log_weights,
            partial,
            counts,
            rows,
            columns,
            share,
            problem.rule.num_keys,
            dim,
            binned.bins,
            **_options(problem, tile),
        )
        total = partial[0]
        if split > 1:
            total = torch.logsumexp(partial * math.log(2), dim=0) / math.log(2)
        return total, None if counts is None else counts.sum(0)

    return problem.launched("log_sum", binned.bins, launch)


def anchor_gradients(
    problem: Problem, scale: Float[Tensor, ""], binned: Binned, log_sum: Float[Tensor, " rows"]
) -> Float[Tensor, "anchors dim"]:
    """Each anchor's mean candidate, weighted by the candidates' shares of its sum."""
    rows, columns, dim = problem.sizes

    def launch(tile: Tile) -> Tensor:
        split, share = _split(rows, columns, tile.rows, tile.columns, problem.anchors.device)
        partial = problem.empty(split, rows, dim)
        grid = (triton.cdiv(rows, tile.rows), split, triton.cdiv(dim, tile.out))
        backward_kernels.anchor_gradient_kernel[grid](
            *problem.common,
            scale,
            binned.tops,
            binned.inverse_widths,
            binned.log_weights,
            log_sum,
            partial,
            rows,
            columns,
            share,
            problem.rule.num_keys,
            dim,
            binned.bins,
            block_out=tile.out,
            **_options(problem, tile),
        )
        return _unshifted(partial)

    return problem.launched("anchor_gradient", binned.bins, launch)


def candidate_gradients(
    problem: Problem,
    scale: Float[Tensor, ""],
    binned: Binned,
    log_sum: Float[Tensor, " rows"],
    upstream: Float[Tensor, " rows"],
) -> Float[Tensor, "candidates dim"]:
    """Each candidate's sum of anchors, weighted by its share and the upstream gradient."""
    rows, columns, dim = problem.sizes

    def launch(tile: Tile) -> Tensor:
        split, share = _split(columns, rows, tile.columns, tile.rows, problem.anchors.device)
        partial = problem.empty(split, columns, dim)
        grid = (triton.cdiv(columns, tile.columns), split, triton.cdiv(dim, tile.out))
        backward_kernels.candidate_gradient_kernel[grid](
            *problem.common,
            scale,
            binned.tops,
            binned.inverse_widths,
            binned.log_weights,
            log_sum,
            upstream,
            partial,
            rows,
            columns,
            share,
            problem.rule.num_keys,
            dim,
            binned.bins,
            block_out=tile.out,
            **_options(problem, tile),
        )
        return _unshifted(partial)

    return problem.launched("candidate_gradient", binned.bins, launch)


def counts_in_shared_memory() -> bool:
    """Whether a tile's histogram is counted in shared memory before it is added to memory.

    Since 3.8 Triton counts a histogram with one atomic per element; older versions compare every
    element with every bin, which for 16,384 of them is slower than atomics on memory.
    """
    major, minor = triton.__version__.split(".")[:2]
    return (int(major), int(minor)) >= (3, 8)


def _by_key(rule: CandidateRule) -> tuple[Tensor | None, Tensor | None]:
    """Anchors' and candidates' groups, all rows of one key after the other.

    Several keys are replaced by places in their order: numbers of 32 bits, equal where the keys
    are. In 64 bits they would take too many registers.
    """
    mine, theirs = rule.anchor_groups, rule.candidate_groups
    if mine is None or theirs is None or rule.num_keys == 0:
        return None, None
    if rule.num_keys == 1:
        return mine, theirs
    keys = torch.cat([mine, theirs]).T.contiguous()
    places = torch.searchsorted(keys.sort(dim=1).values, keys, out_int32=True)
    return places[:, : len(mine)].contiguous(), places[:, len(mine) :].contiguous()


def _unshifted(partial: Float[Tensor, "split rows dim"]) -> Float[Tensor, "rows dim"]:
    total = partial[0] if len(partial) == 1 else partial.sum(0)
    return total.mul_(2.0 ** -float(backward_kernels.SHIFT.value))


def _split(
    owned: int, visited: int, owned_block: int, visited_block: int, device: torch.device
) -> tuple[int, int]:
    """Number of shares of a loop over ``visited``, and how many of them a share holds."""
    steps = triton.cdiv(visited, visited_block)
    split = shares(triton.cdiv(owned, owned_block), steps, _programs(device))
    steps_each = triton.cdiv(steps, split)
    return triton.cdiv(steps, steps_each), steps_each * visited_block


@lru_cache
def _programs(device: torch.device) -> int:
    if device.type != "cuda":
        return _PROGRAMS_WITHOUT_DEVICE
    return 2 * torch.cuda.get_device_properties(device).multi_processor_count


def _options(problem: Problem, tile: Tile) -> dict[str, Any]:
    return {
        "block_rows": tile.rows,
        "block_columns": tile.columns,
        "block_dim": tile.dim,
        "precision": problem.precision,
        "num_warps": tile.warps,
        "num_stages": tile.stages,
        "enable_fp_fusion": True,
    }
