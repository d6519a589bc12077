"""How large a tile of the matrix of logits each kernel works on."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch

Precision = Literal["ieee", "tf32x3", "tf32"]
PRECISIONS: tuple[Precision, ...] = ("ieee", "tf32x3", "tf32")
Kernel = Literal["range", "histogram", "log_sum", "anchor_gradient", "candidate_gradient"]
WARPS = 8  # of every program
MAXIMUM_DIM = 1024  # coordinates of the widest embeddings that the kernels take
MAXIMUM_KEYS = 8  # groups per row; the kernels compare one after the other, without a loop


class Tile(NamedTuple):
    """What a kernel is compiled for."""

    rows: int  # anchors per tile
    columns: int  # candidates per tile
    dim: int  # coordinates read at a time
    out: int = 0  # coordinates of a gradient that one program computes
    stages: int = 2  # depth of the software pipeline


# By kernel; "masked" where groups or pairs are left out, which takes registers, and "narrow" for
# embeddings that a tile can hold whole, without weights. Every tile compiles for embeddings of any
# length without register spills for compute capability 8.0 and 9.0, under Triton 3.9, and fits into
# 99 KiB of shared memory (227 KiB when compiled for 9.0).
_HALF = {
    "range": Tile(64, 128, 128),
    "range masked": Tile(64, 64, 64),
    "histogram": Tile(64, 64, 64),
    "histogram masked": Tile(64, 32, 64),
    "log_sum": Tile(64, 64, 64),
    "log_sum narrow": Tile(64, 64, 128),
    "log_sum masked": Tile(64, 32, 64),
    "gradient": Tile(64, 64, 64, 256),
    "gradient narrow": Tile(64, 64, 64, 128),
    "gradient masked": Tile(64, 32, 32, 256),
}
_PARTS = {  # float32 in three parts on the matrix units
    "range": Tile(64, 64, 32),
    "range masked": Tile(32, 64, 32),
    "histogram": Tile(32, 32, 32),
    "histogram masked": Tile(16, 32, 32),
    "log_sum": Tile(64, 32, 32),
    "log_sum masked": Tile(32, 32, 32),
    "gradient": Tile(64, 32, 16, 128),
    "gradient masked": Tile(32, 32, 16, 128),
}
# Exact products run on the scalar units, which hold whole operands in registers: few coordinates
# at a time, and few rows to sum over where a gradient is accumulated.
_IEEE = {
    "range": Tile(64, 64, 16),
    "range masked": Tile(32, 64, 16),
    "histogram": Tile(32, 64, 16),
    "log_sum": Tile(32, 64, 16),
    "gradient": Tile(32, 32, 16, 128),
}
_NARROW = 128  # coordinates of embeddings that a tile can hold whole
_COUNTERS = 16384  # that one histogram program may keep: 64 KiB of shared memory


def tile_for(
    kernel: Kernel,
    dtype: torch.dtype,
    dim: int,
    bins: int,
    precision: Precision,
    *,
    masked: bool = False,
) -> Tile:
    """The tile of a kernel; without weights 0 bins, ``masked`` with groups or single pairs."""
    table = _HALF if dtype != torch.float32 else _IEEE if precision == "ieee" else _PARTS
    name = "gradient" if kernel.endswith("gradient") else kernel
    kind = "masked" if masked else "narrow" if bins == 0 and dim <= _NARROW else ""
    tile = table.get(f"{name} {kind}", table[name])
    padded = max(16, 1 << (dim - 1).bit_length())
    tile = tile._replace(dim=min(tile.dim, padded), out=min(tile.out, padded))
    if kernel == "histogram":
        return tile._replace(rows=min(tile.rows, _COUNTERS // bins))
    # The look-up of weights depends on the tile's own products: it cannot be fetched ahead, and
    # Triton 3.6 fails when asked to.
    return tile._replace(stages=1) if bins > 0 else tile
