"""Sorting rows quickly on the CPU.

``torch.sort`` moves some ten million numbers a second on a CPU core; NumPy sorts plain integers
with vector instructions, many times faster, but has no such speed for a sort that also returns
positions. So each value is packed with its column into one integer that sorts the same way, and
the column is read back from its low bits. Rows that are not too long fit into 32 bits with their
values rounded to many levels, which sorts faster still; neighbours that the rounding confused are
found and swapped, and rows with many of them sorted again in 64 bits. The result is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LOW_HALF = 0xFFFF_FFFF
_ALL_BUT_SIGN = 0x7FFF_FFFF
_LARGEST = 0x7FFF_FFFF_FFFF_FFFF
_MANTISSA = 23
"""Bits after the first one of a float32: in ``[2**23, 2**24)`` they count units."""

_SHORT = 2**15
"""Columns up to which enough bits are left for the values' levels."""

_CROWDED = 16
"""Rows in which more than one in so many steps descends are sorted again as a whole."""


class SortedRows(NamedTuple):
    """Rows in ascending order."""

    values: Tensor
    """``[rows, columns]``."""
    columns: Tensor
    """For each value, the column that it came from."""
    ties: NDArray[np.int64]
    """Flat places of values that equal the next in their row, ascending."""
    counts: NDArray[np.int64]
    """Of each row, the number of values that are not excluded."""


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
    ordered, columns, *_ = sorted_rows_and_ties(values)
    return ordered, columns


def sorted_rows_and_ties(values: Tensor, excluded: NDArray[np.int64] | None = None) -> SortedRows:
    """Sort each row in ascending order and find ties. For the CPU.

    Args:
        values: ``[rows, columns]``, float32 or float64, contiguous. NaN counts as the largest.
        excluded: flat places of what is sorted to its row's end whatever it is, and is not among
            the ties; each place once. What ``values`` has there is overwritten, by what is below
            infinity if its row is.

    Returns:
        Sorted values, where they came from, where ties are, and what is left of each row.
    """
    width = values.shape[1]
    excluded = np.empty(0, dtype=np.int64) if excluded is None else excluded
    behind = excluded // max(1, width)  # the rows that they are in
    counts = width - np.bincount(behind, minlength=len(values))
    rounded = values.dtype == torch.float32 and 1 < width <= _SHORT
    if rounded:
        columns, unsure = _columns_by_rounding(values, excluded)
    else:
        values.numpy().reshape(-1)[excluded] = 0.0
        columns = _columns_exactly(values, excluded)
    ordered = values.gather(1, columns)
    # NumPy compares the rows end to end four times as fast as torch compares slices of them.
    flat = ordered.numpy().ravel()
    level = np.flatnonzero(flat[1:] <= flat[:-1])
    level = level[_followed(level, width, counts)]
    if rounded:
        descents, more = level[flat[level] > flat[level + 1]], []
        crowded = np.bincount(descents // width, minlength=len(values)) > width // _CROWDED
        crowded |= unsure.numpy()
        if crowded.any():
            again = np.flatnonzero(crowded)
            place = np.full(len(values), -1)
            place[again] = np.arange(len(again))
            some = place[behind] >= 0
            moved = excluded[some] + (place[behind[some]] - behind[some]) * width
            columns[again] = _columns_exactly(values[again], moved)
            ordered[again] = values[again].gather(1, columns[again])
            everywhere = (again[:, None] * width + np.arange(width)).ravel()
            descents = descents[~crowded[descents // width]]
            more.append(everywhere[_followed(everywhere, width, counts)])
        more += _swap_descents(flat, columns.numpy().ravel(), descents, width, counts)
        if more:
            level = _distinct(np.concatenate([level, *more]))
    return SortedRows(ordered, columns, level[flat[level] == flat[level + 1]], counts)


def _followed(
    places: NDArray[np.int64], width: int, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether what stands behind a flat place is in the same row, and not excluded there."""
    rows = places // max(1, width)  # many times faster than with the remainder
    return places - rows * width < counts[rows] - 1


def _columns_by_rounding(values: Tensor, excluded: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """The columns in nearly ascending order of their values; True for rows not to rely on."""
    width = values.shape[1]
    column_bits = (width - 1).bit_length()
    levels = 2 ** min(_MANTISSA, 32 - column_bits)
    flat, rows = values.numpy().reshape(-1), excluded // width
    flat[excluded] = -np.inf
    high = values.amax(dim=1, keepdim=True)
    flat[excluded] = high.numpy()[rows, 0]
    low = values.amin(dim=1, keepdim=True)
    # Subtraction, multiplication and addition round monotonically, so only near neighbours can
    # meet on one level. Infinities and NaN give levels without meaning, but every column is still
    # there once. The last sum's mantissa is the level: its bits need no conversion.
    scaled = (values - low).mul_((levels - 4) / (high - low)).add_(2.0**_MANTISSA)
    packed = scaled.view(torch.int32)
    packed <<= column_bits
    packed.numpy().reshape(-1)[excluded] = -1 << column_bits
    packed |= torch.arange(width, dtype=torch.int32)
    packed.numpy().view(np.uint32).sort(axis=1)
    packed &= 2**column_bits - 1
    return packed.to(torch.int64), high.isnan().squeeze(1)


def _columns_exactly(values: Tensor, excluded: NDArray[np.int64]) -> Tensor:
    """The columns in ascending order of their values."""
    # Flipping all but the sign of negative floats makes the integers sort as the floats do.
    if values.dtype != torch.float32:
        bits = values.contiguous().view(torch.int64)
        keys = (bits ^ ((bits >> 63) & _LARGEST)).numpy()
        keys.reshape(-1)[excluded] = _LARGEST
        return torch.from_numpy(np.argsort(keys, axis=1))
    bits = values.contiguous().view(torch.int32)
    packed = (bits ^ ((bits >> 31) & _ALL_BUT_SIGN)).to(torch.int64)
    packed <<= 32
    packed.numpy().reshape(-1)[excluded] = _ALL_BUT_SIGN << 32
    packed |= torch.arange(values.shape[1])
    packed.numpy().sort(axis=1)
    packed &= _LOW_HALF
    return packed


def _swap_descents(
    values: NDArray[np.float32],
    labels: NDArray[np.int64],
    descents: NDArray[np.int64],
    width: int,
    counts: NDArray[np.int64],
) -> list[NDArray[np.int64]]:
    """Finish rows that are in order but for few neighbours, in place.

    ``descents`` holds flat places whose successor, in the same row, is smaller. Swapping them can
    only make the steps beside them descend, so nothing else is looked at again. Returns where
    values may have changed.
    """
    touched = []
    while len(descents):
        places = descents[np.append(True, np.diff(descents) > 1)]  # no two share a value
        for flat in (values, labels):
            flat[places], flat[places + 1] = flat[places + 1], flat[places]
        beside = np.concatenate([places - 1, places + 1, descents])
        beside = beside[beside >= 0]
        beside = beside[_followed(beside, width, counts)]
        touched.append(beside)
        descents = _distinct(beside[values[beside] > values[beside + 1]])
    return touched


def _distinct(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same in ascending order, each once; ``np.unique`` hashes, which takes far longer."""
    ordered = np.sort(places)
    first: NDArray[np.bool_] = np.append(True, ordered[1:] != ordered[:-1])
    return ordered[first[: len(ordered)]]
