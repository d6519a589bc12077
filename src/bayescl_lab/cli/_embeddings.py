"""Readers for files of embeddings from any source; nothing is ever unpickled."""

from __future__ import annotations

import json
import math
import operator
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_NAMES = {
    "embeddings": ("embeddings", "embedding", "view_1"),
    "second_view": ("second_view", "view_2"),
    "labels": ("labels", "label"),
}
"""Accepted names of each array in a file that holds several."""

_UNREADABLE = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError),
)
"""What a damaged file raises, depending on its damage."""

_LARGEST_HEADER = 100_000_000
_SAFETENSORS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
    "BOOL": "?",
}


class EmbeddingArrays(NamedTuple):
    """Result of :func:`read_embeddings`."""

    embeddings: Array
    second_view: Array | None
    labels: Array | None


def is_embedding_file(path: Path) -> bool:
    """Whether a path is a file of embeddings, or has the name of one."""
    return path.is_file() or (path.suffix in _READERS and not path.is_dir())


def read_embeddings(
    path: Path, *, second_view: Path | None = None, labels: Path | None = None
) -> EmbeddingArrays:
    """Read embeddings, and a second view and labels from the same file or separate ones.

    Args:
        path: an .npy, .npz, .parquet or .safetensors file.
        second_view: a separate file with the second view, if any.
        labels: a separate file with labels, numbers or words, if any.

    Raises:
        ValueError: if a file is missing, cannot be read, lacks an array or holds objects.
    """
    arrays = _read(path, _NAMES)
    if second_view is not None:
        arrays["second_view"] = _only(second_view, "second_view")
    if labels is not None:
        arrays["labels"] = _only(labels, "labels")
    return EmbeddingArrays(
        _numbers(path, "embeddings", arrays["embeddings"]),
        _numbers(second_view or path, "second_view", arrays["second_view"])
        if "second_view" in arrays
        else None,
        _codes(labels or path, arrays["labels"]) if "labels" in arrays else None,
    )


def _only(path: Path, role: str) -> Array:
    """The one array of a file that plays a role."""
    found = _read(path, {role: (*_NAMES[role], *_NAMES["embeddings"])})
    return found[role]


def _read(path: Path, roles: Mapping[str, Iterable[str]]) -> dict[str, Array]:
    """The arrays of a file by their roles; a single array plays the first."""
    if path.suffix not in _READERS:
        raise ValueError(f"{path} must end in {', '.join(_READERS)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        names, read = _READERS[path.suffix](path)
        chosen = {
            role: name
            for role, known in roles.items()
            for name in [next((one for one in known if one in names), None)]
            if name is not None
        }
        first = next(iter(roles))
        if first not in chosen and len(names) == 1:
            chosen = {first: names[0]}
        if first not in chosen:
            shown = ", ".join(names[:8]) or "no array"
            raise ValueError(f"it needs an array called {first}, but has {shown}")
        return {role: read(name) for role, name in chosen.items()}
    except RecursionError:
        raise ValueError(f"cannot read {path}: its header is nested too deeply") from None
    except _UNREADABLE as error:
        reason = str(error).partition("\n")[0] or "it is damaged"
        if "Object arrays" in reason or "Python objects" in reason or "pickle" in reason:
            reason = "it holds Python objects, which may run code when loaded"
        raise ValueError(f"cannot read {path}: {reason}") from None


Opened = tuple[list[str], Callable[[str], Array]]
"""The names of a file's arrays, and a function that reads one."""


def _npy(path: Path) -> Opened:
    def read(_: str) -> Array:
        with path.open("rb") as file:
            _check_header(file, path.stat().st_size)
        return np.lib.format.open_memmap(path, mode="r")

    return ["embeddings"], read


def _npz(path: Path) -> Opened:
    with zipfile.ZipFile(path) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}

    def read(name: str) -> Array:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            _check_header(file, sizes[f"{name}.npy"])
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as arrays:
            array: Array = arrays[name]
        return array

    return [name.removesuffix(".npy") for name in sizes if name.endswith(".npy")], read


def _check_header(file: IO[bytes], size: int) -> None:
    """Refuse an array of NumPy's format by its header, before its values take memory.

    Args:
        file: the file from its start.
        size: its declared size in bytes.
    """
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0
    shape, _, dtype = (read if version == (1, 0) else np.lib.format.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if len(shape) > 2:
        raise ValueError(f"arrays must have one or two dimensions, got shape {shape}")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size - file.tell():
        raise ValueError(f"it is damaged: it does not hold the shape {shape} of its header")


def _safetensors(path: Path) -> Opened:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size - 8, _LARGEST_HEADER):
            raise ValueError("it is not a safetensors file")
        header = json.loads(file.read(length))
    try:
        header.pop("__metadata__", None)
    except (AttributeError, TypeError):
        raise ValueError("it is not a safetensors file") from None

    def read(name: str) -> Array:
        entry = header[name]
        try:
            kind, (begin, end) = entry["dtype"], map(operator.index, entry["data_offsets"])
            shape = [operator.index(one) for one in entry["shape"]]
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"it is damaged: what its header says of {name}") from None
        if str(kind) not in _SAFETENSORS:
            raise ValueError(f"{name} is of type {kind}, which is not supported")
        dtype = np.dtype(_SAFETENSORS[kind])
        count = math.prod(shape)
        fits = begin >= 0 and end - begin == count * dtype.itemsize and 8 + length + end <= size
        if not fits or min(shape, default=0) < 0:
            raise ValueError(f"it is damaged: {name} has the wrong size")
        array = np.fromfile(path, dtype, count, offset=8 + length + begin).reshape(shape)
        if kind == "BF16":  # the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        return array

    return list(header), read


def _parquet(path: Path) -> Opened:
    import polars as pl

    def read(name: str) -> Array:
        column = pl.read_parquet(path, columns=[name])[name]
        if column.null_count():
            raise ValueError(f"{name} has {column.null_count()} empty rows")
        if isinstance(column.dtype, pl.List):
            widths = column.list.len().unique()
            if len(widths) != 1:
                raise ValueError(f"{name} has rows of {len(widths)} different lengths")
            column = column.cast(pl.Array(column.dtype.inner, int(widths[0])))
        if column.dtype in (pl.String, pl.Categorical, pl.Enum):
            return np.array(column.to_list(), dtype=str)
        return column.to_numpy()

    try:
        return list(pl.read_parquet_schema(path)), _polars_errors(read)
    except pl.exceptions.PolarsError as error:
        raise ValueError(str(error)) from None


def _polars_errors(read: Callable[[str], Array]) -> Callable[[str], Array]:
    """The same function with the error types of the other readers."""
    import polars as pl

    def told(name: str) -> Array:
        try:
            return read(name)
        except pl.exceptions.PolarsError as error:
            raise ValueError(str(error)) from None

    return told


_READERS: Mapping[str, Callable[[Path], Opened]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".parquet": _parquet,
    ".safetensors": _safetensors,
}


def _numbers(path: Path, role: str, array: Array) -> Array:
    """Embeddings as floating-point numbers in native byte order."""
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: {role} must hold real numbers, got {array.dtype}")
    return np.array(array, dtype=np.float32 if array.dtype.itemsize <= 4 else np.float64)


def _codes(path: Path, array: Array) -> Array:
    """Labels as whole numbers; words are numbered alphabetically."""
    if array.dtype.kind in "US":
        return np.unique(array, return_inverse=True)[1].reshape(array.shape)
    if array.dtype.kind in "iub":
        return array.astype(np.int64)
    if array.dtype.kind == "f" and bool((np.isfinite(array) & (array % 1 == 0)).all()):
        return array.astype(np.int64)
    raise ValueError(f"{path}: labels must be whole numbers or words, got {array.dtype}")
