"""Sorting rows quickly on the CPU.

``torch.sort`` moves some ten million numbers a second on a CPU core; NumPy sorts plain integers
with vector instructions, many times faster, but has no such speed for a sort that also returns
positions. So each value is packed with its column into one integer that sorts the same way, and
the column is read back from its low bits. Rows that are not too long fit into 32 bits with their
values rounded to many levels, which sorts faster still; neighbours that the rounding confused are
found and swapped, and rows with many of them sorted again in 64 bits. The result is exact.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_LOW_HALF = 0xFFFF_FFFF
_ALL_BUT_SIGN = 0x7FFF_FFFF
_SHORT = 2**15
"""Columns up to which enough bits are left for the values' levels."""

_CROWDED = 16
"""Rows in which more than one in so many steps descends are sorted again as a whole."""


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
    # More levels than float32 tells apart would round the largest value's beyond the last one,
    # and bring the largest values to the front of the row.
    levels = 2 ** min(24, 32 - column_bits)
    low, high = values.amin(dim=1, keepdim=True), values.amax(dim=1, keepdim=True)
    # Subtraction and multiplication round monotonically, so only near neighbours can meet on one
    # level. Infinities and NaN give levels without meaning, but every column is still there once.
    scaled = (values - low).mul_((levels - 2) / (high - low))
    packed = scaled.to(torch.int32)
    packed <<= column_bits
    packed |= torch.arange(values.shape[1], dtype=torch.int32)
    packed.numpy().view(np.uint32).sort(axis=1)
    packed &= 2**column_bits - 1
    columns = packed.to(torch.int64)
    ordered = values.gather(1, columns)

    descents = (ordered[:, 1:] < ordered[:, :-1]).view(-1).nonzero().squeeze(1)
    row = descents // (values.shape[1] - 1)
    crowded = row.bincount(minlength=len(values)) > values.shape[1] // _CROWDED
    crowded |= high.squeeze(1).isnan()
    if bool(crowded.any()):
        rows = crowded.nonzero().squeeze(1)
        columns[rows] = _columns_by_packing(values[rows])
        ordered[rows] = values[rows].gather(1, columns[rows])
        descents, row = descents[~crowded[row]], row[~crowded[row]]
    # From places among steps to places among values: a row has one step less.
    _swap_descents(ordered, columns, descents + row)
    return ordered, columns


def _swap_descents(ordered: Tensor, columns: Tensor, descents: Tensor) -> None:
    """Finish rows that are in order but for few neighbours, in place.

    ``descents`` holds flat places whose successor, in the same row, is smaller. Swapping them can
    only make the steps beside them descend, so nothing else is looked at again: an odd-even
    transposition sort on the places that need it.
    """
    values, labels, width = ordered.view(-1), columns.view(-1), ordered.shape[1]
    while len(descents):
        touched = []
        for parity in (0, 1):
            places = descents[descents % 2 == parity]
            places = places[values[places] > values[places + 1]]
            for flat in (values, labels):
                flat[places], flat[places + 1] = flat[places + 1], flat[places]
            touched.append(places)
        beside = torch.cat(touched)
        beside = torch.unique(torch.cat([beside - 1, beside, beside + 1]))
        beside = beside[(beside >= 0) & (beside % width < width - 1)]
        descents = beside[values[beside] > values[beside + 1]]


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
