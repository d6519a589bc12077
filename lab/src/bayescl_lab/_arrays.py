"""Arrays in ``.npy`` and ``.npz`` files. Nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayescl_lab._cores import usable_memory
from bayescl_lab._files import unreadable
from bayescl_lab._types import AnyArray

UNKNOWN_WORDS = (
    *("", "-1", "-1.0", "NaN", "nan", "null", "NULL", "None", "NA", "N/A", "n/a", "#N/A", "<NA>"),
    *("NaT", "nil", "undefined", "(null)", "\\N", "?"),
)
"""Default spellings of an unknown label, domain or id, as programs write them."""

_LARGEST_RATIO = 1100
"""Largest compression ratio of Deflate."""


def unknown_words_of(option: str | None) -> tuple[str, ...]:
    """Return the comma-separated strings of an option, or the default ones.

    Example:
        >>> unknown_words_of("?,not graded")
        ('', '?', 'not graded')
    """
    return UNKNOWN_WORDS if option is None else ("", *map(str.strip, option.split(",")))


def array_names(path: Path) -> list[str]:
    """Return the names of the arrays in an ``.npz`` file.

    Raises:
        ValueError: if it cannot be read, or declares a larger size than it can contain.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except Exception as error:
        raise unreadable(path, error) from None
    if any(entry.file_size > _LARGEST_RATIO * entry.compress_size + 1024 for entry in entries):
        raise ValueError(
            f"cannot read {path}: it is damaged (an array is larger than its compressed data allow)"
        )
    names = [entry.filename for entry in entries]
    return [name.removesuffix(".npy") for name in names if name.endswith(".npy")]


def read_array(path: Path, name: str | None = None, *, dimensions: Sequence[int]) -> AnyArray:
    """Read the array of an ``.npy`` file, memory-mapped, or one array of an ``.npz`` file.

    Args:
        path: Path of the file.
        name: Name of the array. ``None`` for an ``.npy`` file.
        dimensions: Allowed numbers of dimensions.

    Raises:
        ValueError: if it is missing or damaged, holds Python objects, has another number of
            dimensions, or does not fit into memory.
    """
    try:
        array: AnyArray
        if name is None:
            array = np.lib.format.open_memmap(path, mode="r")
        else:
            with zipfile.ZipFile(path) as archive:
                size = archive.getinfo(f"{name}.npy").file_size
                if size > usable_memory():
                    needed = f"{name} needs {size / 1e9:.1f} GB"
                    raise ValueError(f"{needed}, more than the available memory")
                with archive.open(f"{name}.npy") as packed:
                    array = np.lib.format.read_array(packed, allow_pickle=False)
        if array.ndim not in dimensions:
            allowed = " or ".join(map(str, dimensions))
            what = name or "it"
            raise ValueError(f"{what} must have {allowed} dimensions, got shape {array.shape}")
        return array
    except Exception as error:
        raise unreadable(path, error) from None


def about_unknown(columns: Iterable[ArrayLike], unknown: Sequence[str]) -> list[str]:
    """Return a remark on strings that mean unknown among labels or domains, if any."""
    arrays = (np.asarray(column) for column in columns)
    words = (array.astype(str) for array in arrays if array.dtype.kind in "US")
    counts = Counter(word for it in words for word in it[np.isin(it, unknown)].tolist() if word)
    shown = ", ".join(f"{word!r} ({count})" for word, count in counts.items())
    return [f"strings that mean unknown: {shown} (--unknown to change)"] if counts else []


def numbered(
    values: AnyArray, unknown: Sequence[str] = UNKNOWN_WORDS
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Number the distinct values of integers or strings in sorted order; -1 if unknown.

    Args:
        values: Integers, whole floating-point numbers, or strings.
        unknown: Strings that mean unknown. With "-1", the number -1 is unknown. NaN always is.

    Returns:
        The number of each value, and the names by number.

    Raises:
        ValueError: if the values are neither integers nor strings.

    Example:
        >>> numbered(np.array([7, -1, 3, 7]))
        (array([ 1, -1,  0,  1]), ('3', '7'))
        >>> numbered(np.array(["cat", "", "ant", "none"]))[1]
        ('ant', 'cat', 'none')
    """
    if values.dtype.kind in "US":
        values = np.char.strip(
            np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values
        )
        is_unknown = np.isin(values, list(unknown))
    elif values.dtype.kind in "fbiu":
        is_unknown = (values == -1) & ("-1" in unknown)
        if values.dtype.kind == "f":
            is_unknown |= np.isnan(values)
            known = values[~is_unknown]
            if not (np.isfinite(known) & (known == np.floor(known))).all():
                raise ValueError("must be integers or strings, got fractions")
            exact = 2 ** (np.finfo(values.dtype).nmant + 1)
            if (np.abs(known) >= exact).any():
                raise ValueError(
                    f"must be integers or strings: {values.dtype} rounds numbers above {exact:,}"
                )
            values = np.where(is_unknown, 0, values).astype(np.int64)
    else:
        raise ValueError(f"must be integers or strings, got {values.dtype}")
    names, codes = np.unique(values[~is_unknown], return_inverse=True)
    numbers = np.full(values.shape, -1, dtype=np.int64)
    numbers[~is_unknown] = codes
    return numbers, tuple(map(str, names))
