"""The fastest tile of a fused kernel on the device at hand, measured at its first use.

Triton's own ``autotune`` does not fit: the tile decides into how many shares a loop is cut, and so
the size of the buffers and the sums that follow the kernel.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bayescl.engines._fused_tiles import Kernel, Precision, Tile

TUNED_FROM = 2**24
"""Number of logits below which the default tile is taken: measuring would not pay."""
_MARGIN = 0.98
"""Another tile must take less than this part of the default's time."""
_REPEATS = 5
_ENOUGH = 100.0
"""Milliseconds of repeats after which a time is known well enough."""

_log = logging.getLogger(__name__)
_chosen: dict[Work, Tile] = {}


@dataclass(frozen=True)
class Work:
    """What the best tile depends on.

    Attributes:
        kernel: name of the kernel.
        device: where it runs.
        dtype: of the embeddings.
        precision: how float32 is multiplied.
        dim: coordinates of an embedding.
        bins: bins per row; 0 where there are no weights.
        size: class of the number of logits; see :func:`size_class`.
    """

    kernel: Kernel
    device: torch.device
    dtype: torch.dtype
    precision: Precision
    dim: int
    bins: int
    size: int


def size_class(logits: int) -> int:
    """The class of a number of logits: up to 2, by factors of 16; -1 where nothing is measured.

    Example:
        >>> [size_class(2**power) for power in (20, 24, 27, 28, 32, 40)]
        [-1, 0, 0, 1, 2, 2]
    """
    return min(2, ((logits // TUNED_FROM).bit_length() - 1) // 4)


def may_measure(device: torch.device) -> bool:
    """Whether tiles may be measured now.

    They may not without a GPU, while a CUDA graph is captured, or if the user asks for
    deterministic algorithms: the tile fixes the order in which terms are added.
    """
    return (
        device.type == "cuda"
        and not torch.are_deterministic_algorithms_enabled()
        and not torch.cuda.is_current_stream_capturing()
    )


def chosen_tiles() -> dict[Work, Tile]:
    """What has been chosen so far in this process."""
    return dict(_chosen)


def fastest_tile(work: Work, tiles: Sequence[Tile], milliseconds: Callable[[Tile], float]) -> Tile:
    """The fastest of some tiles, measured once for the same work in a process.

    A tile that fails is passed over, unless it is the default.

    Args:
        work: what is computed.
        tiles: the default first.
        milliseconds: time with a tile.
    """
    if work not in _chosen:
        best, least = tiles[0], milliseconds(tiles[0]) * _MARGIN
        for tile in tiles[1:]:
            try:
                time = milliseconds(tile)
            except Exception as error:  # Triton has no common class for what a device refuses
                _log.debug("%s cannot use %s: %s", work.kernel, tile, error)
                continue
            if time < least:
                best, least = tile, time
        _chosen[work] = best
        _log.debug("%s: %s", work, best)
    return _chosen[work]


def milliseconds_on_device(once: Callable[[], object]) -> float:
    """The median time of a call on the current CUDA device, after one that compiles."""
    once()
    times: list[float] = []
    while len(times) < _REPEATS and sum(times) < _ENOUGH:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        once()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)
