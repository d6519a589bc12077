"""Operations of the fused kernels on one tile of logits: similarities, masks, bins and weights."""
# mypy: ignore-errors
# Triton compiles these functions from their source and knows no Python types.

import triton
import triton.language as tl

from bayescl.functional import histogram

OCTAVES = tl.constexpr(histogram.OCTAVES)
STRETCH = tl.constexpr(2.0**histogram.OCTAVES - 1)


@triton.jit
def load_block(matrix, index, count, start, dim: tl.constexpr, block_dim: tl.constexpr):
    """Coordinates ``start`` and on of the rows ``index``; zero beyond either end."""
    coordinate = start + tl.arange(0, block_dim)
    pointers = matrix + index[:, None].to(tl.int64) * dim + coordinate[None, :]
    inside = (index < count)[:, None] & (coordinate < dim)[None, :]
    return tl.load(pointers, mask=inside, other=0.0)


@triton.jit
def similarity_tile(
    anchors,
    candidates,
    rows,
    columns,
    num_anchors,
    num_candidates,
    first_anchors,
    first_candidates,
    dim: tl.constexpr,
    block_dim: tl.constexpr,
    precision: tl.constexpr,
):
    """Inner products of a block of anchors with a block of candidates, in float32.

    The caller has loaded the first ``block_dim`` coordinates of both; further ones are loaded
    here.
    """
    tile = tl.dot(first_anchors, tl.trans(first_candidates), input_precision=precision)
    if dim > block_dim:
        for start in range(block_dim, dim, block_dim):
            mine = load_block(anchors, rows, num_anchors, start, dim, block_dim)
            other = load_block(candidates, columns, num_candidates, start, dim, block_dim)
            tile = tl.dot(mine, tl.trans(other), acc=tile, input_precision=precision)
    return tile


@triton.jit
def counted_tile(
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
):
    """True where a column is a candidate of an anchor; pointers that are None exclude nothing.

    Groups are laid out key by key.
    """
    row_inside, column_inside = rows < num_anchors, columns < num_candidates
    counted = row_inside[:, None] & column_inside[None, :]
    if own is not None:
        excluded = tl.load(own + rows, mask=row_inside, other=-1)
        counted = counted & (excluded[:, None] != columns[None, :])
    if positive is not None:
        excluded = tl.load(positive + rows, mask=row_inside, other=-1)
        counted = counted & (excluded[:, None] != columns[None, :])
    for key in tl.static_range(num_keys):
        mine = tl.load(anchor_groups + key * num_anchors + rows, mask=row_inside, other=0)
        place = key * num_candidates + columns
        other = tl.load(candidate_groups + place, mask=column_inside, other=0)
        counted = counted & (mine[:, None] != other[None, :])
    if valid is not None:
        pointers = valid + rows[:, None].to(tl.int64) * num_candidates + columns[None, :]
        counted = counted & (tl.load(pointers, mask=counted, other=0) != 0)
    return counted


@triton.jit
def bin_tile(similarity, top, inverse_width, bins: tl.constexpr):
    """Bin of each similarity, counted from the row's largest down; see ``functional.histogram``."""
    depth = tl.maximum((top[:, None] - similarity) * inverse_width[:, None], 0.0)
    # Left operands are tensors: Triton's interpreter would wrap constant times tensor.
    position = (depth + tl.log2(depth * STRETCH + 1.0) * (1.0 / OCTAVES)) * (0.5 * bins)
    # A comparison with NaN is false: whatever the similarity, the bin lies within the table.
    position = tl.where(position > 0.0, position, 0.0)
    return tl.where(position < bins - 1.0, position, bins - 1.0).to(tl.int32)


@triton.jit
def load_scale(tops, inverse_widths, rows, num_anchors):
    """The two numbers per row that place a similarity in its row's histogram."""
    inside = rows < num_anchors
    return (
        tl.load(tops + rows, mask=inside, other=0.0),
        tl.load(inverse_widths + rows, mask=inside, other=0.0),
    )


@triton.jit
def weighted_tile(
    similarity,
    counted,
    rows,
    scale,
    tops,
    inverse_widths,
    log_weights,
    num_anchors,
    bins: tl.constexpr,
):
    """Base-2 logits plus base-2 logarithms of weights; -inf where a column does not count."""
    logits = similarity * scale
    if bins > 0:
        top, inverse_width = load_scale(tops, inverse_widths, rows, num_anchors)
        index = bin_tile(similarity, top, inverse_width, bins)
        pointers = log_weights + rows[:, None].to(tl.int64) * bins + index
        logits += tl.load(pointers, mask=counted, other=0.0)
    return tl.where(counted, logits, float("-inf"))
