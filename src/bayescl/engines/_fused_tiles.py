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
MAXIMUM_KEYS = 8
"""Groups per row; the kernels compare one after the other, without a loop."""


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


@dataclass(frozen=True)
class _Choice:
    """Tiles of one kernel, the default first; any of them compiles for embeddings of any length.

    Attributes:
        plain: without weights.
        weighted: with them; default: the plain ones.
        narrow: without weights, for embeddings of up to 128 coordinates; default: the plain ones.
        masked: the one where groups or single pairs are left out, which takes registers; default:
            the plain default.
    """

    plain: tuple[Tile, ...]
    weighted: tuple[Tile, ...] = ()
    narrow: tuple[Tile, ...] = ()
    masked: Tile | None = None


# Every tile compiles without register spills for compute capability 8.0 and 9.0, under Triton 3.9,
# and fits into 99 KiB of shared memory (227 KiB when compiled for 9.0); the defaults under 3.6 too.
_HALF: dict[Kernel, _Choice] = {
    "range": _Choice(
        (Tile(64, 128, 128, 0), Tile(128, 128, 64, 0), Tile(128, 64, 64, 0, 4, 3)),
        narrow=(Tile(64, 128, 128, 0), Tile(128, 128, 128, 0), Tile(64, 64, 128, 0, 4, 3)),
        masked=Tile(64, 64, 64, 0),
    ),
    "histogram": _Choice(
        (Tile(64, 64, 64, 0), Tile(32, 128, 128, 0), Tile(32, 64, 64, 0)),
        masked=Tile(64, 32, 64, 0),
    ),
    "log_sum": _Choice(
        (Tile(64, 64, 64, 0), Tile(128, 128, 64, 0, stages=3), Tile(128, 64, 64, 0, 4, 3)),
        (Tile(64, 64, 64, 0), Tile(64, 32, 128, 0), Tile(32, 64, 64, 0)),
        (Tile(64, 64, 128, 0), Tile(128, 128, 128, 0), Tile(64, 128, 128, 0, 4, 3)),
        masked=Tile(64, 32, 64, 0),
    ),
    "anchor_gradient": _Choice(
        (Tile(64, 64, 64, 256), Tile(64, 64, 64, 256, stages=3), Tile(128, 64, 64, 128)),
        (Tile(64, 64, 64, 256), Tile(64, 32, 128, 256), Tile(32, 64, 64, 256)),
        (Tile(64, 64, 64, 128), Tile(128, 64, 128, 128), Tile(64, 128, 128, 128)),
        masked=Tile(64, 32, 32, 256),
    ),
    "candidate_gradient": _Choice(
        (Tile(64, 64, 64, 256), Tile(64, 64, 64, 256, stages=3), Tile(128, 64, 64, 128)),
        (Tile(64, 64, 64, 256), Tile(64, 32, 128, 256), Tile(32, 64, 64, 256)),
        (Tile(64, 64, 128, 128), Tile(128, 64, 128, 128), Tile(64, 64, 128, 128, 4)),
        masked=Tile(64, 32, 64, 256),
    ),
}
_PARTS: dict[Kernel, _Choice] = {
    "range": _Choice(
        (Tile(64, 64, 32, 0), Tile(128, 64, 16, 0), Tile(64, 64, 16, 0, 4)),
        masked=Tile(32, 64, 32, 0),
    ),
    "histogram": _Choice(
        (Tile(32, 32, 32, 0), Tile(64, 32, 16, 0), Tile(32, 32, 16, 0, 4)),
        masked=Tile(16, 32, 32, 0),
    ),
    "log_sum": _Choice(
        (Tile(64, 32, 32, 0), Tile(64, 64, 32, 0), Tile(128, 64, 16, 0)),
        (Tile(64, 32, 32, 0), Tile(64, 32, 16, 0), Tile(32, 32, 32, 0)),
        masked=Tile(32, 32, 32, 0),
    ),
    "anchor_gradient": _Choice(
        (Tile(64, 32, 16, 128), Tile(32, 64, 16, 128), Tile(32, 32, 32, 128)),
        masked=Tile(32, 32, 16, 128),
    ),
    "candidate_gradient": _Choice(
        (Tile(64, 32, 16, 128), Tile(32, 32, 32, 128)), masked=Tile(32, 32, 16, 128)
    ),
}
# Exact products run on the scalar units, which hold whole operands in registers: few coordinates
# at a time, and few rows to sum over where a gradient is accumulated.
_IEEE: dict[Kernel, _Choice] = {
    "range": _Choice(
        (Tile(64, 64, 16, 0), Tile(128, 64, 16, 0), Tile(64, 32, 32, 0, 4)),
        masked=Tile(32, 64, 16, 0),
    ),
    "histogram": _Choice((Tile(32, 64, 16, 0), Tile(64, 32, 16, 0), Tile(32, 32, 16, 0, 4))),
    "log_sum": _Choice(
        (Tile(32, 64, 16, 0), Tile(128, 64, 16, 0), Tile(64, 32, 32, 0, 4)),
        (Tile(32, 64, 16, 0), Tile(64, 64, 16, 0), Tile(64, 32, 16, 0)),
    ),
    "anchor_gradient": _Choice(
        (Tile(32, 32, 16, 128), Tile(32, 64, 16, 128), Tile(32, 32, 32, 128)),
        (Tile(32, 32, 16, 128), Tile(32, 32, 32, 128)),
    ),
    "candidate_gradient": _Choice((Tile(32, 32, 16, 128), Tile(32, 32, 32, 128))),
}
_NARROW = 128
"""Coordinates of embeddings that a tile can hold whole."""
_COUNTERS = 16384
"""Counters that one histogram program may keep: 64 KiB of shared memory."""


def tiles_for(
    kernel: Kernel,
    dtype: torch.dtype,
    dim: int,
    bins: int,
    precision: Precision,
    *,
    masked: bool = False,
) -> tuple[Tile, ...]:
    """The tiles that a kernel may be launched with, the default first.

    Args:
        kernel: its name.
        dtype: of the embeddings.
        dim: coordinates of an embedding.
        bins: bins per row; 0 where there are no weights.
        precision: how float32 is multiplied.
        masked: whether groups or single pairs are left out.
    """
    table = _HALF if dtype != torch.float32 else _IEEE if precision == "ieee" else _PARTS
    choice, weighted = table[kernel], bins > 0 and kernel != "histogram"
    tiles = (weighted and choice.weighted) or choice.plain
    if not weighted and dim <= _NARROW:
        tiles = choice.narrow or tiles
    if masked:
        tiles = (choice.masked or choice.plain[0],)
    if kernel == "histogram":
        default = replace(tiles[0], rows=min(tiles[0].rows, _COUNTERS // bins))
        # Further tiles have more columns, so that there is room for half as many counters.
        tiles = (default, *(tile for tile in tiles[1:] if tile.rows * bins <= _COUNTERS // 2))
    elif weighted:
        # The look-up of weights depends on the tile's own products: it cannot be fetched ahead,
        # and Triton 3.6 fails when asked to.
        tiles = tuple(replace(tile, stages=1) for tile in tiles)
    padded = max(16, 1 << (dim - 1).bit_length())
    clipped = (replace(one, dim=min(one.dim, padded), out=min(one.out, padded)) for one in tiles)
    return tuple(dict.fromkeys(clipped))


def shares(blocks: int, steps: int, programs: int) -> int:
    """Number of shares into which to cut a loop of ``steps``, so that ``programs`` have work.

    With few blocks of rows, most of the device would idle; further shares would only cost memory
    for partial results.

    Example:
        >>> shares(blocks=8, steps=100, programs=264), shares(1000, 100, 264)
        (33, 1)
    """
    return max(1, min(steps, -(-programs // blocks)))
