"""Sorting rows quickly on the CPU.

``torch.sort`` sorts some ten million numbers a second on a CPU core. NumPy sorts plain integers
many times faster, with vector instructions, but is slow if the sort must also return positions. So
each value is packed with its column into one integer that sorts the same way, and the column is
read back from its low bits. In rows that are not too long, values are rounded to many levels and
packed into 32 bits, which sorts faster still. Neighbours on the same level, a handful in most
batches, are then ordered by the values themselves, and rows with many of them are sorted again in
64 bits. The result is exact.

NumPy sorts up to 512 integers without leaving a core's registers. In longer rows an element takes
up to ten times as long, so rows are sorted in pieces of at most that size and then merged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LOW_HALF = 0xFFFF_FFFF
_ALL_BUT_SIGN = 0x7FFF_FFFF
_LARGEST = 0x7FFF_FFFF_FFFF_FFFF
_MANTISSA = 23
"""Mantissa bits of a float32; in ``[2**23, 2**24)`` they count units."""

_LAST_LEVEL = 2.0 ** (_MANTISSA + 1) - 1

SHORT = 2**15
"""Largest number of columns that leaves enough bits for the values' levels."""

_PIECE = 512
"""Largest number of 32-bit integers that NumPy sorts without leaving the registers."""

_MARGIN = 8
"""Levels left free at both ends of a range for rounding errors and for excluded values."""

_MOST_APART = 2
"""Largest number of excluded values of a row that have levels of their own."""

NARROWEST = 1e-30
"""Range below which the number of levels over the range may overflow."""

_CROWDED = 16
"""Rows are sorted again if more than one in this many values shares a level with the next."""


class OrderedColumns(NamedTuple):
    """The columns of each row in ascending order of their values."""

    columns: Tensor
    """``[rows, columns]``, int64: a permutation of the columns in each row."""
    ties: NDArray[np.int64]
    """Flat positions in the sorted rows of values that equal the next in their row, ascending."""


def columns_in_order(
    values: Tensor,
    excluded: NDArray[np.int64] | None = None,
    counts: NDArray[np.int64] | None = None,
    *,
    bounds: tuple[float, float] | None = None,
) -> OrderedColumns:
    """Order the columns of each row by their values, and find ties. Only for the CPU.

    Args:
        values: ``[rows, columns]``, float32 or float64. NaN counts as the largest.
        excluded: flat positions of values that go to the end of their row and are not among the
            ties; without repeats, in any shape. If every row has equally many, ``[rows, few]``, it
            may take less time. If ``values`` is contiguous, they are overwritten with -inf, unless
            ``bounds`` are given.
        counts: number of values of each row that are not excluded, ``[rows]``, or one number for
            all, ``[1]``; None if no value is excluded.
        bounds: finite numbers that all values lie between, excluded ones too. They save looking for
            those of each row, which pays if the rows are few and alike.

    Returns:
        Columns in order, and the positions of ties.
    """
    width = values.shape[1]
    values = values.contiguous()  # or flat positions would be those of a copy
    if excluded is None:
        excluded = np.empty(0, dtype=np.int64)
    if counts is None:
        counts = np.array([width])
    if values.dtype == torch.float32 and 1 < width <= SHORT:
        return _order_by_rounding(values, excluded, counts, bounds)
    columns, level = _order_exactly(values, excluded)
    values.numpy().reshape(-1)[excluded] = -np.inf
    return OrderedColumns(columns, level[_followed(level, width, counts)])


def runs_of(
    places: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Join ascending positions, each tied to the next one, into runs: starts, sizes and members.

    Example:
        >>> starts, sizes, members = runs_of(np.array([3, 4, 9]))
        >>> starts.tolist(), sizes.tolist(), members.tolist()
        ([3, 9], [3, 2], [3, 4, 5, 9, 10])
    """
    last = np.append(np.diff(places) > 1, True)
    first = np.append(True, last[:-1])
    starts = places[first]
    sizes = places[last] + 2 - starts
    ends = sizes.cumsum()
    members = np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1])
    return starts, sizes, members


def _followed(
    places: NDArray[np.int64], width: int, counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Whether the value after a flat position is in the same row and not excluded."""
    rows = places // width  # many times faster than with the remainder
    return places - rows * width < (counts if len(counts) == 1 else counts[rows]) - 1


def _order_by_rounding(
    values: Tensor,
    excluded: NDArray[np.int64],
    counts: NDArray[np.int64],
    bounds: tuple[float, float] | None,
) -> OrderedColumns:
    """:func:`columns_in_order` for short rows of float32."""
    rows, width = values.shape
    # A packed integer is [level | column], with as many bits for the column as the width needs.
    column_bits = (width - 1).bit_length()
    apart, clear = False, None
    if bounds is not None and width <= _PIECE and _is_wide(*bounds):
        apart = excluded.ndim == 2 and excluded.shape[1] <= _MOST_APART
        packed = _packed_within(values.numpy(), bounds, excluded, column_bits, apart=apart)
    else:
        packed, clear = _packed_by_row(values, excluded, column_bits)
    stride = packed.shape[1]  # at least the width: what fills up the pieces sorts last
    columns = np.empty((rows, width), dtype=np.int64)
    np.bitwise_and(packed[:, :width], np.int32(2**column_bits - 1), out=columns)
    # Two neighbours share a level if they differ in their column's bits alone.
    flat = packed.view(np.uint32).reshape(-1)
    change = flat[1:] ^ flat[:-1]
    if apart and change.min() >= 2**column_bits:
        return OrderedColumns(torch.from_numpy(columns), np.empty(0, dtype=np.int64))
    same = change < 2**column_bits
    if excluded.size > packed.size // _CROWDED:  # excluded values share the last level
        same &= packed.reshape(-1)[1:] < _first_of_last_level(column_bits)
    level = np.flatnonzero(same)
    if len(level):
        level = level[_followed(level, stride, counts)]
        # From flat positions in rows of ``stride`` to flat positions in rows of ``width``.
        level -= level // stride * (stride - width)
    return _settled(values, torch.from_numpy(columns), level, clear, excluded, counts)


def _is_wide(low: float, high: float) -> bool:
    """Whether a range is wide enough, compared with its ends, for levels by one sum of float32."""
    return high - low > max(abs(low), abs(high)) / 2 and high - low > NARROWEST


def _packed_within(
    values: NDArray[np.float32],
    bounds: tuple[float, float],
    excluded: NDArray[np.int64],
    column_bits: int,
    *,
    apart: bool,
) -> NDArray[np.int32]:
    """Levels within one range for all rows, packed with their columns and sorted.

    In few operations, of NumPy, which start sooner. With ``apart``, each excluded value of a row
    has a level of its own.
    """
    low, high = bounds
    # The product and the sum may be off by some levels, but they are monotone. The sum's mantissa
    # is the level: its bits need no conversion.
    scale = (2 ** min(_MANTISSA, 32 - column_bits) - 2 * _MARGIN) / (high - low)
    # level = 2^23 + margin + (value - low) * scale, in one product and one sum.
    scaled = values * np.float32(scale)
    scaled += np.float32(2.0**_MANTISSA + _MARGIN - low * scale)
    few = excluded.shape[1] if apart else 1
    scaled.reshape(-1)[excluded] = np.float32(_LAST_LEVEL) - np.arange(few, dtype=np.float32)
    packed: NDArray[np.int32] = scaled.view(np.int32)
    # The mantissa moves up beside the column; sign and exponent are the same in all.
    packed <<= column_bits
    packed += _every_column(values.shape[1]).numpy()
    packed.sort(axis=1)
    return packed


def _packed_by_row(
    values: Tensor, excluded: NDArray[np.int64], column_bits: int
) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Levels within each row's own range, packed and sorted, and whether they mean anything.

    Rows divide into pieces; what fills them up sorts last. Excluded values become -inf.
    """
    rows, width = values.shape
    low = values.amin(dim=1, keepdim=True)  # [rows, 1], of excluded values too
    values.numpy().reshape(-1)[excluded] = -np.inf
    spread = values.amax(dim=1, keepdim=True).sub_(low)
    # Subtraction, multiplication and addition round monotonically, so only neighbours can share a
    # level.
    scale = (2 ** min(_MANTISSA, 32 - column_bits) - 4) / spread
    scaled = (values - low).mul_(scale).add_(2.0**_MANTISSA)
    scaled.numpy().reshape(-1)[excluded] = _LAST_LEVEL
    pieces = pieces_of(width)
    stride = -(-width // pieces) * pieces  # the width, rounded up to a multiple of the pieces
    packed = torch.empty(rows, stride, dtype=torch.int32)
    if stride > width:
        packed[:, width:] = _ALL_BUT_SIGN
    levels_of = scaled.view(torch.int32)
    torch.add(_every_column(width), levels_of, alpha=2**column_bits, out=packed[:, :width])
    clear: NDArray[np.bool_] = (np.isfinite(spread.numpy()) & np.isfinite(scale.numpy())).ravel()
    return _sort_in_pieces(packed, pieces).numpy(), clear


def _settled(
    values: Tensor,
    columns: Tensor,
    level: NDArray[np.int64],
    clear: NDArray[np.bool_] | None,
    excluded: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> OrderedColumns:
    """Order columns that share a level by their values, in place; see :func:`_settle`.

    ``clear`` says whether a row's levels mean anything; None if all rows' do.
    """
    rows, width = values.shape
    more = np.empty(0, dtype=np.int64)  # ties of rows that are sorted again
    if (clear is not None and not clear.all()) or len(level) > width // _CROWDED:
        unclear = np.bincount(level // width, minlength=rows) > width // _CROWDED
        if clear is not None:
            unclear |= ~clear  # levels mean nothing if spread or scale is not finite
        more = _order_again(values, columns, np.flatnonzero(unclear), excluded.reshape(-1), counts)
        level = level[~unclear[level // width]]
    flat = values.numpy().reshape(-1)
    ties = _settle(flat, columns.numpy().reshape(-1), level, width) if len(level) else level
    return OrderedColumns(columns, np.sort(np.concatenate([ties, more])) if len(more) else ties)


@lru_cache(maxsize=64)
def _every_column(width: int) -> Tensor:
    """The number that packing adds to each column's level. Cached: do not write to it.

    It is the column's number, minus an offset that makes signed integers sort like unsigned ones.
    """
    return torch.arange(width, dtype=torch.int32) - 2**31


def _first_of_last_level(column_bits: int) -> int:
    """The packed form of column 0 on the last level, as a signed integer."""
    bits = int(np.float32(_LAST_LEVEL).view(np.int32)) << column_bits
    return (bits & _LOW_HALF) - 2**31


def pieces_of(width: int) -> int:
    """The number of pieces that a row of ``width`` columns is cut into, a power of 2."""
    return 1 << (-(-width // _PIECE) - 1).bit_length()


def _sort_in_pieces(keys: Tensor, pieces: int) -> Tensor:
    """Sort each row of ``keys``, which is overwritten, and return the sorted rows.

    A bitonic merge: the elementwise minima of an ascending and a descending run of equal length are
    all below the maxima. Whole pieces are compared at a time, and each is sorted once it holds the
    right elements. The columns are a multiple of ``pieces``, a power of 2.
    """
    if pieces == 1:
        keys.numpy().sort(axis=1)
        return keys
    rows, columns = keys.shape
    size = columns // pieces
    spare = torch.empty_like(keys)
    for run, flips in _flips(pieces):
        keys.view(rows, pieces, size).bitwise_xor_(flips)
        apart = run // 2  # pieces between the two that are compared
        while apart > 0:
            left, right = keys.view(-1, 2, apart * size).unbind(dim=1)
            # [rows * pieces / (2 apart), apart * size] each; minima go left and maxima right.
            lower, upper = spare.view(-1, 2, apart * size).unbind(dim=1)
            torch.minimum(left, right, out=lower)
            torch.maximum(left, right, out=upper)
            keys, spare = spare, keys
            apart //= 2
        keys.view(-1, size).numpy().sort(axis=1)
    return keys


@lru_cache(maxsize=64)
def _flips(pieces: int) -> list[tuple[int, Tensor]]:
    """Lengths of runs, 1, 2 ... ``pieces``, and what is flipped before each, ``[pieces, 1]``.

    Every other run descends. With all its bits flipped it ascends, so that runs are sorted alike.
    """
    number = torch.arange(pieces, dtype=torch.int32)[:, None]
    runs = [1 << place for place in range(pieces.bit_length())]
    descends = [torch.zeros_like(number), *(-(number // run & 1) for run in runs)]
    return [
        (run, earlier ^ now)
        for run, earlier, now in zip(runs, descends, descends[1:], strict=False)
    ]


def _order_again(
    values: Tensor,
    columns: Tensor,
    rows: NDArray[np.int64],
    excluded: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Order the columns of some rows in 64 bits, in place; return the ties."""
    if len(rows) == 0:
        return rows
    width = values.shape[1]
    # Flat positions of what is excluded, among the rows that are sorted again, and back.
    place = np.full(len(values), -1)
    place[rows] = np.arange(len(rows))
    row = excluded // width
    kept = place[row] >= 0
    moved = excluded[kept] + (place[row[kept]] - row[kept]) * width
    columns[rows], level = _order_exactly(values[rows], moved)
    level = level + (rows[level // width] - level // width) * width
    return level[_followed(level, width, counts)]


def _settle(
    values: NDArray[np.float32],
    columns: NDArray[np.int64],
    level: NDArray[np.int64],
    width: int,
) -> NDArray[np.int64]:
    """Order columns that share a level by their values, in place; return the ties.

    ``level`` holds the flat positions of columns that share their level with the next.
    """
    if (level[1:] - level[:-1] > 1).all():  # pairs, as nearly always
        start = level // width * width  # where the row begins
        left, right = columns[level], columns[level + 1]
        of_left, of_right = values[start + left], values[start + right]
        swapped = of_left > of_right
        if swapped.any():
            columns[level[swapped]] = right[swapped]
            columns[level[swapped] + 1] = left[swapped]
        ties: NDArray[np.int64] = level[of_left == of_right]
        return ties
    # Longer runs: sort by run and then by value, which leaves every run in its place.
    starts, sizes, members = runs_of(level)
    run = np.repeat(np.arange(len(starts)), sizes)
    unsorted = columns[members]
    of_members = values[members // width * width + unsorted]
    order = np.lexsort((of_members, run))
    columns[members] = unsorted[order]
    of_members = of_members[order]
    tied = (of_members[1:] == of_members[:-1]) & (run[1:] == run[:-1])
    ties_in_runs: NDArray[np.int64] = members[:-1][tied]
    return ties_in_runs


def _order_exactly(values: Tensor, excluded: NDArray[np.int64]) -> tuple[Tensor, NDArray[np.int64]]:
    """The columns in order of their values, and flat positions of values that equal the next."""
    # Flipping all but the sign of negative floats makes the integers sort as the floats do, and
    # adding 0 makes -0 the same as 0.
    if values.dtype != torch.float32:
        bits = (values + 0.0).view(torch.int64)
        keys = (bits ^ ((bits >> 63) & _LARGEST)).numpy()
        keys.reshape(-1)[excluded] = _LARGEST
        columns = np.argsort(keys, axis=1)
        flat = np.take_along_axis(keys, columns, axis=1).reshape(-1)
        return torch.from_numpy(columns), np.flatnonzero(flat[1:] == flat[:-1])
    bits = (values + 0.0).view(torch.int32)
    packed = (bits ^ ((bits >> 31) & _ALL_BUT_SIGN)).to(torch.int64)
    packed <<= 32  # [value | column], 32 bits each
    keys = packed.numpy()
    keys.reshape(-1)[excluded] = _ALL_BUT_SIGN << 32
    packed |= torch.arange(values.shape[1])
    keys.sort(axis=1)
    flat = keys.view(np.uint64).reshape(-1)
    level = np.flatnonzero(flat[1:] ^ flat[:-1] <= _LOW_HALF)  # the values' halves are the same
    packed &= _LOW_HALF
    return packed, level
