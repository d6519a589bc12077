"""Sorting rows quickly on the CPU.

``torch.sort`` moves some ten million numbers a second on a CPU core; NumPy sorts plain integers
with vector instructions, many times faster, but has no such speed for a sort that also returns
positions. So each float32 is packed with its column into one 64-bit integer that sorts the same
way, and the column is read back from the low half.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

_LOW_HALF = 0xFFFF_FFFF
_ALL_BUT_SIGN = 0x7FFF_FFFF
_MINIMUM_PER_THREAD = 2**15
"""Numbers below which a second thread costs more than it saves."""


@torch.library.custom_op("bayescl::sorted_rows", mutates_args=())
def sorted_rows(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each row in ascending order; also return the columns in that order.

    An operator of its own, so that ``torch.compile`` and ``torch.func`` take it as one opaque
    step. Not differentiable: detach first. Equal values come in any order.

    Args:
        values: ``[rows, columns]``, float32 or float64. NaN counts as the largest.

    Returns:
        The sorted values and, for each, the column that it came from; both as ``values``.
    """
    if values.device.type != "cpu":
        ordered, columns = torch.sort(values, dim=1)
        return ordered, columns
    if values.dtype == torch.float64:
        columns = torch.from_numpy(np.argsort(values.numpy(), axis=1))
        return values.gather(1, columns), columns
    return _sorted_by_packing(values)


@sorted_rows.register_fake
def _(values: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(values), torch.empty_like(values, dtype=torch.int64)


@sorted_rows.register_vmap
def _(
    _info: object, in_dims: tuple[int | None, ...], values: Tensor
) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
    batched = values.movedim(in_dims[0] or 0, 0)
    ordered, columns = sorted_rows(batched.flatten(0, 1))
    sizes = batched.shape[:2]
    return (ordered.unflatten(0, sizes), columns.unflatten(0, sizes)), (0, 0)


def _sorted_by_packing(values: Tensor) -> tuple[Tensor, Tensor]:
    bits = values.contiguous().view(torch.int32)
    # Flipping all but the sign of negative floats makes the integers sort as the floats do.
    key = bits ^ ((bits >> 31) & _ALL_BUT_SIGN)
    packed = key.to(torch.int64) << 32
    packed |= torch.arange(values.shape[1])
    _sort_in_place(packed.numpy())
    key = (packed >> 32).to(torch.int32)
    ordered = (key ^ ((key >> 31) & _ALL_BUT_SIGN)).view(torch.float32)
    return ordered, packed & _LOW_HALF


def _sort_in_place(rows: np.ndarray) -> None:
    threads = min(torch.get_num_threads(), rows.size // _MINIMUM_PER_THREAD, len(rows))
    if threads < 2:
        rows.sort(axis=1)
        return
    # NumPy lets go of the interpreter lock while it sorts. The threads live for this call only:
    # a lasting pool would not survive a fork.
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda block: block.sort(axis=1), np.array_split(rows, threads)))
