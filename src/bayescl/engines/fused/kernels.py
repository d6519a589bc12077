"""The kernels, which compute tiles of the matrix of logits and never store it.

There are A anchors a_i and C candidates c_j of D coordinates; z_ij = a_i . c_j are similarities,
s z_ij logits, s = log2(e) / temperature::

    pass 1, the histogram: only if candidates are weighed by rank
        range_kernel       low_i = min_j z_ij  and  top_i = max_j z_ij            [A] each
        histogram_kernel   n_ib  = number of j with bin(z_ij) = b                 [A, bins]
        then, in torch     w_ib  = mean weight of the ranks in bin b              [A, bins]
    pass 2, the weighted sums
        log_sum_kernel     L_i   = log2 sum_j w_i,bin(z_ij) 2^(s z_ij)            [A]
    backward, with the shares p_ij = w_i,bin(z_ij) 2^(s z_ij - L_i) computed again
        gradient_kernel    sum_j p_ij c_j      [A, D],   an anchor's gradient but for a factor
        gradient_kernel    sum_i g_i p_ij a_i  [C, D],   a candidate's, with upstream gradients g

Only j that are candidates of i count. Without weights, w = 1 and there is no pass 1. Powers are of
2, which a GPU computes in one instruction.

A program owns a block of anchors, reads it once and walks over one share of the candidates. Shares
only serve to give every multiprocessor work: each writes its own result, and torch adds them up.
So nothing but whole numbers is added atomically, and results repeat bit for bit.
"""
# mypy: ignore-errors
# Triton compiles these functions from their source and knows no Python types.

import triton
import triton.language as tl

from bayescl.functional import histogram

OCTAVES = tl.constexpr(histogram.OCTAVES)
STRETCH = tl.constexpr(2.0**histogram.OCTAVES - 1)
SHIFT = tl.constexpr(15.0)
"""Shares are multiplied by 2^15, so that those of a row of a million candidates are still normal
numbers in float16; the launch divides it out."""


@triton.jit
def load_block(matrix, index, count, start, dim: tl.constexpr, block_dim: tl.constexpr):
    """Coordinates ``start`` and on of the rows ``index``; zero beyond either end."""
    coordinate = start + tl.arange(0, block_dim)
    # 64 bits: the place in a matrix may exceed 2^31.
    pointers = matrix + index[:, None].to(tl.int64) * dim + coordinate[None, :]
    inside = (index < count)[:, None] & (coordinate < dim)[None, :]
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def pair_tile(
    anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
    rows, columns, first_anchors, first_candidates, num_anchors, num_candidates,
    num_keys: tl.constexpr, dim: tl.constexpr, block_dim: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Similarities of a block of anchors and a block of candidates, and True where they count.

    The caller has loaded the first ``block_dim`` coordinates of both. Pointers that are None
    exclude nothing.
    """
    # [block_rows, block_dim] x [block_dim, block_columns], added up over blocks of coordinates.
    similarity = tl.dot(first_anchors, tl.trans(first_candidates), input_precision=precision)
    if dim > block_dim:
        for start in range(block_dim, dim, block_dim):
            mine = load_block(anchors, rows, num_anchors, start, dim, block_dim)
            other = load_block(candidates, columns, num_candidates, start, dim, block_dim)
            similarity = tl.dot(mine, tl.trans(other), acc=similarity, input_precision=precision)

    row_inside, column_inside = rows < num_anchors, columns < num_candidates
    counted = row_inside[:, None] & column_inside[None, :]
    if own is not None:  # [A]: the anchor's own column
        excluded = tl.load(own + rows, mask=row_inside, other=-1)
        counted = counted & (excluded[:, None] != columns[None, :])
    if positive is not None:  # [A]: its positive's
        excluded = tl.load(positive + rows, mask=row_inside, other=-1)
        counted = counted & (excluded[:, None] != columns[None, :])
    for key in tl.static_range(num_keys):  # [keys, A] and [keys, C]: any equal group excludes
        mine = tl.load(anchor_groups + key * num_anchors + rows, mask=row_inside, other=0)
        place = key * num_candidates + columns
        other = tl.load(candidate_groups + place, mask=column_inside, other=0)
        counted = counted & (mine[:, None] != other[None, :])
    if valid is not None:  # [A, C]
        pointers = valid + rows[:, None].to(tl.int64) * num_candidates + columns[None, :]
        counted = counted & (tl.load(pointers, mask=counted, other=0) != 0)
    return similarity, counted


@triton.jit
def bin_tile(similarity, rows, tops, inverse_widths, num_anchors, bins: tl.constexpr):
    """Bin of each similarity, counted from the row's largest down; see ``functional.histogram``."""
    inside = rows < num_anchors
    top = tl.load(tops + rows, mask=inside, other=0.0)
    inverse_width = tl.load(inverse_widths + rows, mask=inside, other=0.0)
    # x = (top - z) / (top - low);  bin = bins / 2 * (x + log2(1 + (2^P - 1) x) / P)
    depth = tl.maximum((top[:, None] - similarity) * inverse_width[:, None], 0.0)
    # Left operands are tensors: Triton's interpreter would wrap constant times tensor.
    position = (depth + tl.log2(depth * STRETCH + 1.0) * (1.0 / OCTAVES)) * (0.5 * bins)
    # A comparison with NaN is false: whatever the similarity, the bin lies within the table.
    position = tl.where(position > 0.0, position, 0.0)
    return tl.where(position < bins - 1.0, position, bins - 1.0).to(tl.int32)


@triton.jit
def logit_tile(
    similarity, counted, rows, scale, tops, inverse_widths, log_weights, num_anchors,
    bins: tl.constexpr,
):  # fmt: skip
    """Base-2 logits with their weights, ``s z + log2 w``; -inf where a column does not count."""
    logits = similarity * scale
    if bins > 0:
        index = bin_tile(similarity, rows, tops, inverse_widths, num_anchors, bins)
        pointers = log_weights + rows[:, None].to(tl.int64) * bins + index
        logits += tl.load(pointers, mask=counted, other=0.0)
    return tl.where(counted, logits, float("-inf"))


@triton.jit
def range_kernel(
    anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
    lows, tops,  # out: [shares, A] each
    num_anchors, num_candidates, share,
    num_keys: tl.constexpr, dim: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block_dim: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Smallest and largest similarity of each row; inf and -inf where none counts."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    low = tl.full([block_rows], float("inf"), tl.float32)
    top = tl.full([block_rows], float("-inf"), tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity, counted = pair_tile(
            anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
            rows, columns, held, block, num_anchors, num_candidates,
            num_keys, dim, block_dim, precision,
        )  # fmt: skip
        low = tl.minimum(low, tl.min(tl.where(counted, similarity, float("inf")), axis=1))
        top = tl.maximum(top, tl.max(tl.where(counted, similarity, float("-inf")), axis=1))
    place = tl.program_id(1).to(tl.int64) * num_anchors + rows
    tl.store(lows + place, low, mask=rows < num_anchors)
    tl.store(tops + place, top, mask=rows < num_anchors)


@triton.jit
def histogram_kernel(
    anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
    tops, inverse_widths,  # [A] each
    counts,  # out: [A, bins], zero before
    num_anchors, num_candidates, share,
    num_keys: tl.constexpr, dim: tl.constexpr, bins: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block_dim: tl.constexpr, precision: tl.constexpr,
    shared_counts: tl.constexpr,
):  # fmt: skip
    """Add each row's number of similarities in each bin; counted in shared memory if asked."""
    local_rows = tl.arange(0, block_rows)
    rows = tl.program_id(0) * block_rows + local_rows
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    if shared_counts:
        total = tl.zeros([block_rows * bins], tl.int32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity, counted = pair_tile(
            anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
            rows, columns, held, block, num_anchors, num_candidates,
            num_keys, dim, block_dim, precision,
        )  # fmt: skip
        index = bin_tile(similarity, rows, tops, inverse_widths, num_anchors, bins)
        if shared_counts:
            # One histogram of block_rows * bins cells serves all rows of the tile.
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
    anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
    scale_pointer,  # one number
    tops, inverse_widths, log_weights,  # [A], [A], [A, bins]; None without weights
    log_sums,  # out: [shares, A]
    num_anchors, num_candidates, share,
    num_keys: tl.constexpr, dim: tl.constexpr, bins: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block_dim: tl.constexpr, precision: tl.constexpr,
):  # fmt: skip
    """Base-2 log of each row's (weighted) sum over a share of the columns."""
    rows = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    held = load_block(anchors, rows, num_anchors, 0, dim, block_dim)
    scale = tl.load(scale_pointer)
    largest = tl.full([block_rows], float("-inf"), tl.float32)
    total = tl.zeros([block_rows], tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_candidates), block_columns):
        columns = start + tl.arange(0, block_columns)
        block = load_block(candidates, columns, num_candidates, 0, dim, block_dim)
        similarity, counted = pair_tile(
            anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
            rows, columns, held, block, num_anchors, num_candidates,
            num_keys, dim, block_dim, precision,
        )  # fmt: skip
        logits = logit_tile(
            similarity, counted, rows, scale, tops, inverse_widths, log_weights, num_anchors, bins
        )
        # The running sum is of 2^(logit - largest): scaled down when the largest grows.
        higher = tl.maximum(largest, tl.max(logits, axis=1))
        # A row that has met no candidate yet: -inf minus -inf would be NaN.
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp2(largest - base) + tl.sum(tl.exp2(logits - base[:, None]), axis=1)
        largest = higher
    place = tl.program_id(1).to(tl.int64) * num_anchors + rows
    log_total = tl.log2(tl.where(total == 0.0, 1.0, total))  # largest is -inf where total is 0
    tl.store(log_sums + place, largest + log_total, mask=rows < num_anchors)


@triton.jit
def gradient_kernel(
    anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
    scale_pointer, tops, inverse_widths, log_weights,  # as in log_sum_kernel
    log_sums, upstream,  # [A] each; upstream is only read for candidates
    gradients,  # out: [shares, A, D], or [shares, C, D] for candidates
    num_anchors, num_candidates, share,
    num_keys: tl.constexpr, dim: tl.constexpr, bins: tl.constexpr, block_rows: tl.constexpr,
    block_columns: tl.constexpr, block_dim: tl.constexpr, precision: tl.constexpr,
    block_out: tl.constexpr, of_candidates: tl.constexpr,
):  # fmt: skip
    """Gradients of one side, ``block_out`` coordinates a program; times ``2**SHIFT``.

    For anchors, a program owns rows and walks over columns, as above; for candidates, it owns
    columns and walks over rows. So no two programs add to the same place.
    """
    if of_candidates:
        mine, num_mine, others, num_others = candidates, num_candidates, anchors, num_anchors
    else:
        mine, num_mine, others, num_others = anchors, num_anchors, candidates, num_candidates
    block_mine: tl.constexpr = block_columns if of_candidates else block_rows
    block_others: tl.constexpr = block_rows if of_candidates else block_columns
    index = tl.program_id(0) * block_mine + tl.arange(0, block_mine)
    held = load_block(mine, index, num_mine, 0, dim, block_dim)
    first_out = tl.program_id(2) * block_out
    scale = tl.load(scale_pointer)
    total = tl.zeros([block_mine, block_out], tl.float32)
    begin = tl.program_id(1) * share
    for start in range(begin, tl.minimum(begin + share, num_others), block_others):
        visited = start + tl.arange(0, block_others)
        block = load_block(others, visited, num_others, 0, dim, block_dim)
        if of_candidates:
            rows, columns, first_anchors, first_candidates = visited, index, block, held
        else:
            rows, columns, first_anchors, first_candidates = index, visited, held, block
        similarity, counted = pair_tile(
            anchors, candidates, own, positive, anchor_groups, candidate_groups, valid,
            rows, columns, first_anchors, first_candidates, num_anchors, num_candidates,
            num_keys, dim, block_dim, precision,
        )  # fmt: skip
        logits = logit_tile(
            similarity, counted, rows, scale, tops, inverse_widths, log_weights, num_anchors, bins
        )
        log_sum = tl.load(log_sums + rows, mask=rows < num_anchors, other=float("inf"))
        # A row with nothing to sum has shares of 0, not of -inf minus -inf.
        log_sum = tl.where(log_sum == float("-inf"), float("inf"), log_sum)
        shares = tl.exp2(logits - (log_sum - SHIFT)[:, None])  # 2^SHIFT p: [rows, columns]
        if of_candidates:
            weight = tl.load(upstream + rows, mask=rows < num_anchors, other=0.0)
            factors = tl.trans((shares * weight[:, None]).to(anchors.dtype.element_ty))
        else:
            factors = shares.to(anchors.dtype.element_ty)
        # [block_mine, block_others] x [block_others, block_out]
        if dim <= block_dim and block_out == block_dim:
            total = tl.dot(factors, block, acc=total, input_precision=precision)
        else:
            out = load_block(others, visited, num_others, first_out, dim, block_out)
            total = tl.dot(factors, out, acc=total, input_precision=precision)
    coordinate = first_out + tl.arange(0, block_out)
    place = tl.program_id(1).to(tl.int64) * num_mine + index
    inside = (index < num_mine)[:, None] & (coordinate < dim)[None, :]
    tl.store(gradients + place[:, None] * dim + coordinate[None, :], total, mask=inside)
