"""Sorting rows quickly on the CPU.

``torch.sort`` moves some ten million numbers a second on a CPU core; NumPy sorts plain integers
with vector instructions, many times faster, but has no such speed for a sort that also returns
positions. So each value is packed with its column into one integer that sorts the same way, and
the column is read back from its low bits. Short rows fit into 32 bits with their values rounded
to some two million levels, which sorts faster still; rows in which the rounding confused two
values are found and sorted again in 64 bits. The result is exact either way.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_LOW_HALF = 0xFFFF_FFFF
_ALL_BUT_SIGN = 0x7FFF_FFFF
_SHORT = 2**10
"""Columns up to which rounded values seldom meet."""


def can_look(tensor: Tensor) -> bool:
    """Whether Python may decide by the tensor's values, cheaply.

    It may on the CPU, unless ``torch.compile`` or a ``torch.func`` transform is tracing; any
    other device would have to be waited for.
    """
    return (
        tensor.device.type == "cpu"
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def sorted_rows(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sort each row in ascending order; also return the columns in that order.

    Not differentiable: detach first. Equal values come in any order.

    Args:
        values: ``[rows, columns]``, float32 or float64. NaN counts as the largest.

    Returns:
        The sorted values and, for each, the column that it came from; both as ``values``.
    """
    if not can_look(values):
        ordered, columns = torch.sort(values, dim=1)
        return ordered, columns
    if values.dtype != torch.float32:
        columns = torch.from_numpy(np.argsort(values.numpy(), axis=1))
        return values.gather(1, columns), columns
    if 1 < values.shape[1] <= _SHORT:
        return _sorted_by_rounding(values)
    columns = _columns_by_packing(values)
    return values.gather(1, columns), columns


def _sorted_by_rounding(values: Tensor) -> tuple[Tensor, Tensor]:
    column_bits = (values.shape[1] - 1).bit_length()
    levels = 2 ** (32 - column_bits)
    low, high = values.amin(dim=1, keepdim=True), values.amax(dim=1, keepdim=True)
    # Subtraction and multiplication round monotonically, so only near neighbours can meet on one
    # level. Infinities give levels without meaning; such rows fail the check below.
    scaled = (values - low).mul_((levels - 2) / (high - low))
    packed = scaled.to(torch.int32)
    packed <<= column_bits
    packed |= torch.arange(values.shape[1], dtype=torch.int32)
    packed.numpy().view(np.uint32).sort(axis=1)
    packed &= 2**column_bits - 1
    columns = packed.to(torch.int64)
    ordered = values.gather(1, columns)
    rows = (~(smallest_step(ordered) >= 0)).nonzero().squeeze(1)
    if len(rows):
        columns[rows] = _columns_by_packing(values[rows])
        ordered[rows] = values[rows].gather(1, columns[rows])
    return ordered, columns


def smallest_step(ordered: Tensor) -> Tensor:
    """Smallest difference from one value of a row to the next: 0 where there are ties.

    Negative where the row is not in order, NaN where it holds NaN or one infinity twice.
    """
    if ordered.shape[1] < 2:
        return torch.full_like(ordered[:, 0], torch.inf)
    return (ordered[:, 1:] - ordered[:, :-1]).amin(dim=1)


def _columns_by_packing(values: Tensor) -> Tensor:
    bits = values.contiguous().view(torch.int32)
    # Flipping all but the sign of negative floats makes the integers sort as the floats do.
    packed = (bits ^ ((bits >> 31) & _ALL_BUT_SIGN)).to(torch.int64)
    packed <<= 32
    packed |= torch.arange(values.shape[1])
    packed.numpy().sort(axis=1)
    packed &= _LOW_HALF
    return packed
