"""The three forward kernels: range and histogram of each row's similarities, log-sum-exp.

Each program owns a block of anchors and walks over a share of the columns, tile by tile.
"""
# mypy: ignore-errors
# Triton compiles these functions from their source and knows no Python types.

import triton
import triton.language as tl

from bayescl.engines._fused_tile_math import (
    bin_tile,
    counted_tile,
    load_block,
    load_scale,
    similarity_tile,
    weighted_tile,
)


@triton.jit
def range_kernel(
    anchors,
    candidates,
    own,
    positive,
    anchor_groups,
    candidate_groups,
    valid,
    lows,
    tops,
    num_anchors,
    num_candidates,
    share,
    num_keys: tl.constexpr,
    dim: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_dim: tl.constexpr,
    precision: tl.constexpr,
):
    """Smallest and largest similarity of each row, one pair per share of the columns."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    low = tl.full([block_rows], float("inf"), tl.float32)
    top = tl.full([block_rows], float("-inf"), tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity = similarity_tile(
            anchors, candidates, rows, columns, num_anchors, num_candidates,
            held, block, dim, block_dim, precision,
        )  # fmt: skip
        counted = counted_tile(
            rows, columns, num_anchors, num_candidates,
            own, positive, anchor_groups, candidate_groups, valid, num_keys,
        )  # fmt: skip
        low = tl.minimum(low, tl.min(tl.where(counted, similarity, float("inf")), axis=1))
        top = tl.maximum(top, tl.max(tl.where(counted, similarity, float("-inf")), axis=1))
    place = tl.program_id(1).to(tl.int64) * num_anchors + rows
    tl.store(lows + place, low, mask=rows < num_anchors)
    tl.store(tops + place, top, mask=rows < num_anchors)


@triton.jit
def histogram_kernel(
    anchors,
    candidates,
    own,
    positive,
    anchor_groups,
    candidate_groups,
    valid,
    tops,
    inverse_widths,
    counts,
    num_anchors,
    num_candidates,
    share,
    num_keys: tl.constexpr,
    dim: tl.constexpr,
    bins: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_dim: tl.constexpr,
    precision: tl.constexpr,
    shared_counts: tl.constexpr,
):
    """Add the number of similarities in each bin of each row to ``counts``."""
    local_rows = tl.arange(0, block_rows)
    rows = tl.program_id(0) * block_rows + local_rows
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    top, inverse_width = load_scale(tops, inverse_widths, rows, num_anchors)
    if shared_counts:
        total = tl.zeros([block_rows * bins], tl.int32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity = similarity_tile(
            anchors, candidates, rows, columns, num_anchors, num_candidates,
            held, block, dim, block_dim, precision,
        )  # fmt: skip
        counted = counted_tile(
            rows, columns, num_anchors, num_candidates,
            own, positive, anchor_groups, candidate_groups, valid, num_keys,
        )  # fmt: skip
        index = bin_tile(similarity, top, inverse_width, bins)
        if shared_counts:
            flat = tl.reshape(local_rows[:, None] * bins + index, [block_rows * block_columns])
            mask = tl.reshape(counted, [block_rows * block_columns])
            total += tl.histogram(flat, block_rows * bins, mask=mask)
        else:
            pointers = counts + rows[:, None].to(tl.int64) * bins + index
            tl.atomic_add(pointers, 1, mask=counted, sem="relaxed")
    if shared_counts:
        cell = tl.arange(0, block_rows * bins)
        first = tl.program_id(0).to(tl.int64) * (block_rows * bins)
        inside = tl.program_id(0) * block_rows + cell // bins < num_anchors
        # Sums of integers: the order in which programs add them does not matter.
        tl.atomic_add(counts + first + cell, total, mask=inside & (total > 0), sem="relaxed")


@triton.jit
def log_sum_kernel(
    anchors,
    candidates,
    own,
    positive,
    anchor_groups,
    candidate_groups,
    valid,
    scale_pointer,
    tops,
    inverse_widths,
    log_weights,
    log_sums,
    counts,
    num_anchors,
    num_candidates,
    share,
    num_keys: tl.constexpr,
    dim: tl.constexpr,
    bins: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_dim: tl.constexpr,
    precision: tl.constexpr,
):
    """Base-2 log of each row's (weighted) sum, one per share of the columns, and its count."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    scale = tl.load(scale_pointer)
    largest = tl.full([block_rows], float("-inf"), tl.float32)
    total = tl.zeros([block_rows], tl.float32)
    count = tl.zeros([block_rows], tl.int32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity = similarity_tile(
            anchors, candidates, rows, columns, num_anchors, num_candidates,
            held, block, dim, block_dim, precision,
        )  # fmt: skip
        counted = counted_tile(
            rows, columns, num_anchors, num_candidates,
            own, positive, anchor_groups, candidate_groups, valid, num_keys,
        )  # fmt: skip
        logits = weighted_tile(
            similarity, counted, rows, scale, tops, inverse_widths, log_weights, num_anchors, bins
        )
        higher = tl.maximum(largest, tl.max(logits, axis=1))
        # A row that has met no candidate yet: -inf minus -inf would be NaN.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(largest - base) + tl.sum(tl.exp2(logits - base[:, None]), axis=1)
        largest = higher
        if counts is not None:
            count += tl.sum(counted.to(tl.int32), axis=1)
    place = tl.program_id(1).to(tl.int64) * num_anchors + rows
    log_total = tl.log2(tl.where(total == 0.0, 1.0, total))  # largest is -inf where total is 0
    tl.store(log_sums + place, largest + log_total, mask=rows < num_anchors)
    if counts is not None:
        tl.store(counts + place, count, mask=rows < num_anchors)
