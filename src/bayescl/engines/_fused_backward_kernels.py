"""The two backward kernels: softmax shares recomputed tile by tile, gradients of each side.

Shares are multiplied by ``2**SHIFT``, so that those of a row of a million candidates are still
normal numbers in float16; whoever launches the kernels divides it out.
"""
# mypy: ignore-errors
# Triton compiles these functions from their source and knows no Python types.

import triton
import triton.language as tl

from bayescl.engines._fused_tile_math import (
    counted_tile,
    load_block,
    similarity_tile,
    weighted_tile,
)

SHIFT = tl.constexpr(15.0)


@triton.jit
def share_tile(
    similarity,
    rows,
    columns,
    num_anchors,
    num_candidates,
    own,
    positive,
    anchor_groups,
    candidate_groups,
    valid,
    num_keys: tl.constexpr,
    scale,
    tops,
    inverse_widths,
    log_weights,
    log_sums,
    bins: tl.constexpr,
):
    """Each candidate's share of its row's sum, times ``2**SHIFT``."""
    counted = counted_tile(
        rows, columns, num_anchors, num_candidates,
        own, positive, anchor_groups, candidate_groups, valid, num_keys,
    )  # fmt: skip
    logits = weighted_tile(
        similarity, counted, rows, scale, tops, inverse_widths, log_weights, num_anchors, bins
    )
    log_sum = tl.load(log_sums + rows, mask=rows < num_anchors, other=float("inf"))
    # A row with nothing to sum has shares of 0, not of -inf minus -inf.
    log_sum = tl.where(log_sum == float("-inf"), float("inf"), log_sum)
    return tl.exp2(logits - (log_sum - SHIFT)[:, None])


@triton.jit
def anchor_gradient_kernel(
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
    gradients,
    num_anchors,
    num_candidates,
    share,
    num_keys: tl.constexpr,
    dim: tl.constexpr,
    bins: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_dim: tl.constexpr,
    block_out: tl.constexpr,
    precision: tl.constexpr,
):
    """Each anchor's mean candidate under its row's shares, one per share of the columns."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    first_out = tl.program_id(2) * block_out
    scale = tl.load(scale_pointer)
    total = tl.zeros([block_rows, block_out], tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity = similarity_tile(
            anchors, candidates, rows, columns, num_anchors, num_candidates,
            held, block, dim, block_dim, precision,
        )  # fmt: skip
        shares = share_tile(
            similarity, rows, columns, num_anchors, num_candidates,
            own, positive, anchor_groups, candidate_groups, valid, num_keys,
            scale, tops, inverse_widths, log_weights, log_sums, bins,
        ).to(candidates.dtype.element_ty)  # fmt: skip
        if dim <= block_dim and block_out == block_dim:
            total = tl.dot(shares, block, acc=total, input_precision=precision)
        else:
            out = load_block(candidates, columns, num_candidates, first_out, dim, block_out)
            total = tl.dot(shares, out, acc=total, input_precision=precision)
    coordinate = first_out + tl.arange(0, block_out)
    place = tl.program_id(1).to(tl.int64) * num_anchors + rows
    inside = (rows < num_anchors)[:, None] & (coordinate < dim)[None, :]
    tl.store(gradients + place[:, None] * dim + coordinate[None, :], total, mask=inside)


@triton.jit
def candidate_gradient_kernel(
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
    upstream,
    gradients,
    num_anchors,
    num_candidates,
    share,
    num_keys: tl.constexpr,
    dim: tl.constexpr,
    bins: tl.constexpr,
    block_rows: tl.constexpr,
    block_columns: tl.constexpr,
    block_dim: tl.constexpr,
    block_out: tl.constexpr,
    precision: tl.constexpr,
):
    """Each candidate's sum of anchors by share and upstream gradient, one per share of rows.

    The loops of ``anchor_gradient_kernel`` turned round: a program owns columns and walks over
    rows, so no two programs add to the same place and the result does not depend on their order.
    """
    columns = tl.program_id(0) * block_columns + tl.arange(0, block_columns)
    held = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
    first_out = tl.program_id(2) * block_out
    scale = tl.load(scale_pointer)
    total = tl.zeros([block_columns, block_out], tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_anchors), block_rows):
        rows = start + tl.arange(0, block_rows)
        block = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
        similarity = similarity_tile(
            anchors, candidates, rows, columns, num_anchors, num_candidates,
            block, held, dim, block_dim, precision,
        )  # fmt: skip
        shares = share_tile(
            similarity, rows, columns, num_anchors, num_candidates,
            own, positive, anchor_groups, candidate_groups, valid, num_keys,
            scale, tops, inverse_widths, log_weights, log_sums, bins,
        )  # fmt: skip
        weight = tl.load(upstream + rows, mask=rows < num_anchors, other=0.0)
        turned = tl.trans((shares * weight[:, None]).to(anchors.dtype.element_ty))
        if dim <= block_dim and block_out == block_dim:
            total = tl.dot(turned, block, acc=total, input_precision=precision)
        else:
            out = load_block(anchors, rows, num_anchors, first_out, dim, block_out)
            total = tl.dot(turned, out, acc=total, input_precision=precision)
    coordinate = first_out + tl.arange(0, block_out)
    place = tl.program_id(1).to(tl.int64) * num_candidates + columns
    inside = (columns < num_candidates)[:, None] & (coordinate < dim)[None, :]
    tl.store(gradients + place[:, None] * dim + coordinate[None, :], total, mask=inside)
