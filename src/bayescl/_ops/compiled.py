"""Weights by exact rank in machine code. Needs Numba.

NumPy sorts plain integers with vector instructions, several times as fast as ``argsort``. Each
value is therefore rounded to one of many levels and packed with its column into one integer. After
sorting, the low bits give the columns. A few neighbors share a level; they are then ordered by
their values, so the result is exact. Numba compiles at the first call and caches the code on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import torch
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])

_WIDEST = 2**17
"""Largest number of columns. With more, too few bits would be left for the levels."""

_NARROWEST = 1e-30
"""Smallest range of values. Below it, the number of levels divided by the range may overflow."""

_MOST_LEVELS = 2**24
"""Largest number of levels: float32 represents all integers up to it."""

_SIGN = np.int32(-(2**31))
"""Sign bit. With it flipped, signed integers sort like unsigned ones."""

_STRETCH = 64
"""Number of neighbors compared at a time. Few of them share a level."""

_GAPS = (701, 301, 132, 57, 23, 10, 4, 1)
"""Ciura's gaps for Shell's sort, which compiles faster than NumPy's sort."""


def _compiled(function: _Function) -> _Function:
    """Compile a function at its first call. It runs without the interpreter's lock."""
    options = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
    try:
        return cast(_Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no cache directory is writable
        return cast(_Function, numba.njit(**options)(function))


def add_by_rank(
    values: NDArray[Any],
    addends: Callable[[NDArray[np.int64]], tuple[NDArray[np.float32], NDArray[np.int64]]],
    *,
    mask: NDArray[np.bool_] | None = None,
    columns: NDArray[np.int64] | None = None,
    upper: bool = False,
) -> bool:
    """Add to each value an amount that depends on its rank in its row. Excluded values become -inf.

    Return False without any change if values do not have 32 bits or the number of columns is out of
    range.

    Args:
        values: Contiguous array ``[rows, columns]``. Overwritten. Values that are not excluded must
            be finite.
        addends: Function of the number of values that count in each row, ``[rows]``, or in all
            rows, ``[1]``. It returns tables ``[tables, 2, columns]`` with the amounts at the CDF
            values ``(place + 1/2) / number`` and ``(place + 1) / number``, and the table of each
            number.
        mask: Mask ``[rows, columns]``, True for excluded values. Default: none excluded.
        columns: Distinct excluded columns of each row, ``[rows, few]``. Not with ``mask``. Default:
            none excluded.
        upper: Whether ties get the rank of the last of them instead of the middle. Default: False.
    """
    rows, width = values.shape
    if values.dtype != np.float32 or not 1 < width <= _WIDEST:
        return False
    if mask is None:
        mask = np.empty((rows, 0), dtype=np.bool_)
    if columns is None:
        columns = np.empty((rows, 0), dtype=np.int64)
    keys = np.empty((rows, width), dtype=np.int32)
    counts = np.empty(rows, dtype=np.int64)
    logits = torch.from_numpy(values)
    low, high = logits.amin(dim=1), logits.amax(dim=1)  # aminmax is many times slower
    bits = (width - 1).bit_length()
    _pack(values, low.numpy(), high.numpy(), mask, columns, bits, keys, counts)
    keys.sort(axis=1)
    tables, which = addends(counts if mask.shape[1] > 0 else counts[:1])
    _add(values, keys, counts, tables, which, bits, upper)
    return True


@_compiled
def _pack(
    values: NDArray[np.float32],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    mask: NDArray[np.bool_],
    columns: NDArray[np.int64],
    bits: int,
    keys: NDArray[np.int32],
    counts: NDArray[np.int64],
) -> None:
    """Pack each value's level and column into an integer; count values that are not excluded."""
    rows, width = values.shape
    field = 2 ** (32 - bits)
    levels = np.float32(min(_MOST_LEVELS, field) - 4)
    shift, last = np.int32(bits), np.int32(np.uint32(field - 1))
    for row in range(rows):
        value, key = values[row], keys[row]
        start, spread = low[row], high[row] - low[row]
        scale = np.float32(0)
        if spread > np.float32(_NARROWEST) and spread < np.float32(np.inf):
            scale = levels / spread
        else:  # all share one level and are ordered by their values
            start = np.float32(0)
        excluded = np.int32(columns.shape[1])
        if mask.shape[1] > 0:
            masked = mask[row]
            for place in range(width):
                level = np.int32((value[place] - start) * scale)
                level = last if masked[place] else level
                excluded += np.int32(masked[place])
                key[place] = (level << shift | np.int32(place)) ^ _SIGN
        else:
            for place in range(width):
                level = np.int32((value[place] - start) * scale)
                key[place] = (level << shift | np.int32(place)) ^ _SIGN
            for place in range(columns.shape[1]):
                column = columns[row, place]
                key[column] = (last << shift | np.int32(column)) ^ _SIGN
        counts[row] = width - excluded


@_compiled
def _add(
    values: NDArray[np.float32],
    keys: NDArray[np.int32],
    counts: NDArray[np.int64],
    tables: NDArray[np.float32],
    which: NDArray[np.int64],
    bits: int,
    upper: bool,
) -> None:
    """Order columns that share a level by their values, then add the amount of each place."""
    rows, width = values.shape
    column_of = np.uint32(2**bits - 1)
    for row in range(rows):
        value, key = values[row], keys[row].view(np.uint32)
        count = counts[row]
        table = tables[which[row] if len(which) > 1 else which[0]]
        if _settle(value, key[:count], bits):
            _add_to_ties(value, key[:count], table, bits, upper)
        else:
            untied = table[1] if upper else table[0]
            for place in range(count):
                value[key[place] & column_of] += untied[place]
        for place in range(count, width):
            value[key[place] & column_of] = -np.inf


@_compiled
def _settle(value: NDArray[np.float32], key: NDArray[np.uint32], bits: int) -> bool:
    """Order columns that share a level by their values; return whether some values tie."""
    column_of, step = np.uint32(2**bits - 1), np.uint32(2**bits)
    tied = False
    for stretch in range(0, len(key) - 1, _STRETCH):
        here = key[stretch : stretch + _STRETCH + 1]
        shared = 0
        for place in range(len(here) - 1):
            shared += (here[place] ^ here[place + 1]) < step
        if shared == 0:
            continue
        # Counting is faster than branching, which is mispredicted where many values tie.
        equal, falls = 0, 0
        for place in range(len(here) - 1):
            mine, following = value[here[place] & column_of], value[here[place + 1] & column_of]
            equal += mine == following
            falls += mine > following
        tied |= equal > 0
        if falls == 0:
            continue
        start = stretch
        while start > 0 and (key[start - 1] ^ key[start]) < step:
            start -= 1
        while start < stretch + len(here) - 1:
            if (key[start] ^ key[start + 1]) >= step:
                start += 1
                continue
            end = start + 2
            while end < len(key) and (key[start] ^ key[end]) < step:
                end += 1
            _sort_by_value(value, key[start:end], column_of)
            for place in range(start, end - 1):
                tied |= value[key[place] & column_of] == value[key[place + 1] & column_of]
            start = end
    return tied


@_compiled
def _add_to_ties(
    value: NDArray[np.float32],
    key: NDArray[np.uint32],
    table: NDArray[np.float32],
    bits: int,
    upper: bool,
) -> None:
    """Add the amounts in a row with ties. Ties get the amount of their middle or last place."""
    column_of, count = np.uint32(2**bits - 1), len(key)
    ordered = np.empty(count + 1, dtype=np.float32)
    ordered[count] = np.nan  # NaN is not equal to any value
    ends = np.empty(count, dtype=np.int64)
    end = count
    for place in range(count - 1, -1, -1):
        ordered[place] = value[key[place] & column_of]
        end = end if ordered[place] == ordered[place + 1] else place + 1
        ends[place] = end
    start = 0
    for place in range(count):
        start = start if place > 0 and ordered[place] == ordered[place - 1] else place
        doubled = ends[place] + (ends[place] if upper else start)
        value[key[place] & column_of] += table[1 - doubled % 2, (doubled - 1) // 2]


@_compiled
def _sort_by_value(
    value: NDArray[np.float32], key: NDArray[np.uint32], column_of: np.uint32
) -> None:
    """Sort the keys of one level in place by the values of their columns, with Shell's sort."""
    for gap in _GAPS:
        for place in range(gap, len(key)):
            moved = key[place]
            mine = value[moved & column_of]
            hole = place
            while hole >= gap and value[key[hole - gap] & column_of] > mine:
                key[hole] = key[hole - gap]
                hole -= gap
            key[hole] = moved
