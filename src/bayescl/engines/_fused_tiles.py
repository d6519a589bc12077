"""How large a tile each kernel works on, and how many programs share a row of tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

Precision = Literal["ieee", "tf32x3", "tf32"]
PRECISIONS: tuple[Precision, ...] = ("ieee", "tf32x3", "tf32")
Kernel = Literal["range", "histogram", "log_sum", "anchor_gradient", "candidate_gradient"]
KERNELS: tuple[Kernel, ...] = (
    "range",
    "histogram",
    "log_sum",
    "anchor_gradient",
    "candidate_gradient",
)
MAXIMUM_DIM = 1024
"""Coordinates of the widest embeddings that the kernels take."""


@dataclass(frozen=True)
class Tile:
    """What a kernel is compiled for.

    Attributes:
        rows: anchors per tile.
        columns: candidates per tile.
        dim: coordinates read at a time.
        out: coordinates of a gradient that one program computes.
        warps: warps per program.
        stages: depth of the software pipeline.
    """

    rows: int
    columns: int
    dim: int
    out: int
    warps: int = 8
    stages: int = 2


# The largest tiles found that compile without register spills for compute capability 8.0 and 9.0,
# d = 128 and 1024, with and without weights, under Triton 3.6 and 3.9.
_HALF: dict[Kernel, Tile] = {
    "range": Tile(64, 128, 128, 0),
    "histogram": Tile(64, 64, 64, 0),
    "log_sum": Tile(64, 64, 64, 0),
    "anchor_gradient": Tile(64, 64, 64, 256),
    "candidate_gradient": Tile(64, 64, 64, 256),
}
_PARTS: dict[Kernel, Tile] = {
    "range": Tile(64, 64, 32, 0),
    "histogram": Tile(32, 32, 32, 0),
    "log_sum": Tile(64, 32, 32, 0),
    "anchor_gradient": Tile(64, 32, 16, 128),
    "candidate_gradient": Tile(64, 32, 16, 128),
}
# Exact products run on the scalar units, which hold whole operands in registers: few coordinates
# at a time, and few rows to sum over where a gradient is accumulated.
_IEEE: dict[Kernel, Tile] = {
    "range": Tile(64, 64, 16, 0),
    "histogram": Tile(32, 64, 16, 0),
    "log_sum": Tile(32, 64, 16, 0),
    "anchor_gradient": Tile(32, 32, 16, 128),
    "candidate_gradient": Tile(32, 32, 16, 128),
}
_COUNTERS = 16384
"""Counters that one histogram program may keep: 64 KiB of shared memory."""


def tile_for(kernel: Kernel, dtype: torch.dtype, dim: int, bins: int, precision: Precision) -> Tile:
    """The tile that a kernel is launched with; ``bins`` is 0 where there are no weights."""
    if dtype != torch.float32:
        tile = _HALF[kernel]
        if bins == 0 and kernel in ("log_sum", "candidate_gradient") and dim <= 128:
            tile = replace(tile, dim=128)  # without a table there is room for whole embeddings
    else:
        tile = (_IEEE if precision == "ieee" else _PARTS)[kernel]
    if kernel == "histogram":
        tile = replace(tile, rows=min(tile.rows, _COUNTERS // bins))
    elif bins > 0:
        # The look-up of weights depends on the tile's own products: it cannot be fetched ahead,
        # and Triton 3.6 fails when asked to.
        tile = replace(tile, stages=1)
    padded = max(16, 1 << (dim - 1).bit_length())
    return replace(tile, dim=min(tile.dim, padded), out=min(tile.out, padded))


def shares(blocks: int, steps: int, programs: int) -> int:
    """Number of shares into which to cut a loop of ``steps``, so that ``programs`` have work.

    With few blocks of rows, most of the device would idle; further shares would only cost memory
    for partial results.

    Example:
        >>> shares(blocks=8, steps=100, programs=264), shares(1000, 100, 264)
        (33, 1)
    """
    return max(1, min(steps, -(-programs // blocks)))
