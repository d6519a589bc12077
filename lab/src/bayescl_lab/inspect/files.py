"""Readers of embedding files. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS, array_names, numbered, read_array
from bayescl_lab._fields import listed
from bayescl_lab._files import UnreadableError, unreadable
from bayescl_lab._types import AnyArray, Config

_SUFFIXES = (".npy", ".npz", ".parquet")

_NAMES = {
    "embeddings": ("embeddings", "embedding", "view_1", "queries"),
    "second_view": ("second_view", "view_2", "documents"),
    "labels": ("labels", "label"),
    "groups": ("ids", "groups", "document_ids"),
    "domains": ("domains", "domain"),
    "output": ("output",),
    "texts": ("texts", "text", "query_texts"),
    "second_texts": ("document_texts",),
}
"""Accepted names of each array in a file that holds several."""


class EmbeddingArrays(NamedTuple):
    """Embeddings with metadata of each row."""

    embeddings: AnyArray
    second_view: AnyArray | None = None
    labels: AnyArray | None = None
    groups: AnyArray | None = None
    domains: AnyArray | None = None
    are_pairs: bool = False
    """Whether the embeddings are queries and documents."""

    measured: str = "the embeddings of the file"
    """Description of the embeddings for the report."""

    by: tuple[str, ...] = ()
    """Names of further arrays that may be domains."""

    ids: AnyArray | None = None
    """Id of each item as it is in the file."""

    texts: AnyArray | None = None
    """Text of each item or query."""

    second_texts: AnyArray | None = None
    """Text of each document."""

    pictures: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    """Function that returns the images of some rows, without augmentation and augmented."""


def is_embedding_file(path: Path) -> bool:
    """Return whether a path is a file of embeddings, or is named like one."""
    return path.is_file() or (path.suffix in _SUFFIXES and not path.is_dir())


def read_embeddings(
    path: Path, *, unknown: Sequence[str] = UNKNOWN_WORDS, **chosen: str | None
) -> EmbeddingArrays:
    """Read embeddings and their metadata.

    Args:
        path: File of type .npy, .npz or .parquet.
        unknown: Strings that mean unknown; see :func:`~bayescl_lab._arrays.numbered`.
        **chosen: Names of the arrays of ``labels``, ``groups`` and ``domains``, which hold integers
            or strings. Default: one of several common names.

    Raises:
        ValueError: if the file is missing, cannot be read, lacks an array or holds objects.
    """
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"{path} must end in {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    own = {role: name for role, name in chosen.items() if name is not None}
    try:
        names, read = _open(path)
        found = {
            role: next((name for name in usual if name in names), "")
            for role, usual in {**_NAMES, **{role: (name,) for role, name in own.items()}}.items()
        }
        if not found["embeddings"] and len(names) == 1:
            found["embeddings"] = names[0]
        for role, name in {"embeddings": "embeddings", **own}.items():
            if not found[role]:
                others = listed(names) or "no array"
                raise ValueError(f"it needs an array called {name}, but has {others}")
        arrays = {role: read(name) for role, name in found.items() if name}
        unused = [name for name in names if name not in found.values()]
        rows = len(arrays["embeddings"])
        by = [name for name in unused if _may_be_domains(partial(read, name), rows)]
    except UnreadableError:
        raise
    except Exception as error:
        raise unreadable(path, error) from None
    codes = arrays.keys() & {"labels", "groups", "domains"}
    known: Config = {role: _codes(path, role, arrays[role], unknown) for role in codes}
    if "second_view" in arrays:
        known["second_view"] = _numbers(path, "second_view", arrays["second_view"])
    for role, source in {"ids": "groups", "texts": "texts", "second_texts": "second_texts"}.items():
        if source in arrays:
            if arrays[source].shape != (rows,):
                raise ValueError(f"{path}: {source} must have one value per row")
            known[role] = arrays[source]
    if "output" in arrays:
        known["measured"] = f"{arrays['output'][0]} of unaugmented items"
    if "domains" not in arrays:
        known["by"] = tuple(by)
    embeddings = _numbers(path, "embeddings", arrays["embeddings"])
    return EmbeddingArrays(embeddings, are_pairs=found["embeddings"] == "queries", **known)


def _may_be_domains(read: Callable[[], AnyArray], rows: int) -> bool:
    """Return whether an array has an integer or a word per row, with few distinct values."""
    try:
        array = read()
    except Exception:  # of any reader; the array is not needed
        return False
    if array.shape != (rows,) or array.dtype.kind not in "iubUS":
        return False
    return 2 <= len(np.unique(array)) <= rows / 10


def _open(path: Path) -> tuple[list[str], Callable[[str], AnyArray]]:
    """Return the names of a file's arrays, and a function that reads one."""
    if path.suffix == ".npy":
        return ["embeddings"], lambda _: read_array(path, dimensions=(1, 2))
    if path.suffix == ".npz":
        return array_names(path), lambda name: read_array(path, name, dimensions=(1, 2))
    return list(pl.read_parquet_schema(path)), partial(_column, path)


def _column(path: Path, name: str) -> AnyArray:
    column = pl.read_parquet(path, columns=[name])[name]
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return np.array(column.cast(pl.String).fill_null("").to_list(), dtype=str)
    if isinstance(column.dtype, pl.List):
        lengths = column.list.len().drop_nulls().unique().to_list()
        if len(lengths) > 1:
            raise ValueError(f"{name} has rows of different lengths")
        column = column.list.to_array(max([*lengths, 1]))
    return column.to_numpy()


def _numbers(path: Path, role: str, array: AnyArray) -> AnyArray:
    """Convert embeddings to floating-point numbers in native byte order."""
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: {role} must contain real numbers, got {array.dtype}")
    return np.array(array, dtype=np.float32 if array.dtype.itemsize <= 4 else np.float64)


def _codes(path: Path, role: str, array: AnyArray, unknown: Sequence[str]) -> AnyArray | None:
    """Convert codes to integers, -1 if unknown; return ``None`` if all are unknown."""
    try:
        codes, names = numbered(array, unknown)
    except ValueError as error:
        raise ValueError(f"{path}: {role} {error}") from None
    return codes if names else None
