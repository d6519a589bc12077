"""Readers of embedding files. Nothing is unpickled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl_lab._arrays import array_names, numbered, read_array, unreadable
from bayescl_lab._files import UnreadableError

Array = NDArray[Any]

_SUFFIXES = (".npy", ".npz", ".parquet")

_NAMES = {
    "embeddings": ("embeddings", "embedding", "view_1", "queries"),
    "second_view": ("second_view", "view_2", "documents"),
    "labels": ("labels", "label"),
    "ids": ("ids", "id", "groups", "document_ids"),
    "domains": ("domains", "domain"),
    "output": ("output",),
}
"""Accepted names of each array in a file that holds several."""

_FEWEST = 4  # items that can be inspected
_CODES = ("labels", "ids", "domains")
"""Arrays with one code per item, an integer or a word."""


class EmbeddingArrays(NamedTuple):
    """Embeddings with metadata of each row."""

    embeddings: Array
    second_view: Array | None = None
    labels: Array | None = None
    ids: Array | None = None
    domains: Array | None = None
    are_pairs: bool = False
    """Whether the embeddings are queries and documents."""

    measured: str = "the embeddings of the file"
    """Description of the embeddings for the report."""


def is_embedding_file(path: Path) -> bool:
    """Return whether a path is a file of embeddings, or is named like one."""
    return path.is_file() or (path.suffix in _SUFFIXES and not path.is_dir())


def read_embeddings(
    path: Path,
    *,
    queries: str | None = None,
    documents: str | None = None,
    second_view: Path | None = None,
    by: str | None = None,
    **codes: str | None,
) -> EmbeddingArrays:
    """Read embeddings and their metadata from the same file or separate files.

    Args:
        path: File of type .npy, .npz or .parquet.
        queries: Name of the array of embeddings. Default: one of several common names.
        documents: Name of the array of the second view. Default: one of several common names.
        second_view: Separate file with the second view, if any.
        by: Possible nuisance, given like ``codes``.
        **codes: ``labels`` and ``ids``: name of an array of integers or words, or a separate file.
            -1, NaN and empty words are unknown.

    Raises:
        ValueError: if a file is missing, cannot be read, lacks an array or holds objects.
    """
    if second_view is not None and documents is not None:
        raise ValueError("give documents or second_view, not both")
    named = {"embeddings": queries, "second_view": documents}
    given = {role: (name,) for role, name in named.items() if name is not None}
    are_pairs = bool(given)
    files = {} if second_view is None else {"second_view": second_view}
    for role, value in {**codes, "domains": by}.items():
        if value is not None and Path(value).suffix:
            files[role] = Path(value)
        elif value is not None:
            given[role] = (value,)
    arrays, chosen = _read(path, {**_NAMES, **given}, {"embeddings", *given})
    for role, file in files.items():
        known = (*_NAMES[role], *_NAMES["embeddings"])
        arrays[role] = _read(file, {role: known}, {role})[0][role]
    view = arrays.get("second_view")
    codes_of: Any = {
        role: _codes(files.get(role, path), role, arrays[role]) for role in _CODES if role in arrays
    }
    rows = _numbers(path, "embeddings", arrays["embeddings"])
    if rows.ndim != 2 or rows.shape[1] == 0 or len(rows) < _FEWEST:
        raise ValueError(
            f"{path} must have a row of numbers for each of at least {_FEWEST} items, "
            f"got an array of shape {list(rows.shape)}"
        )
    second = None if view is None else _numbers(second_view or path, "second view", view)
    for name, array, shape in (
        ("second view", second, rows.shape),
        *((role, arrays.get(role), rows.shape[:1]) for role in _CODES),
    ):
        if array is not None and array.shape != shape:
            raise ValueError(
                f"{files.get(name.replace(' ', '_'), path)}: the {name} must have shape "
                f"{list(shape)} for embeddings of shape {list(rows.shape)}, got {list(array.shape)}"
            )
    found = EmbeddingArrays(rows, second, **codes_of)
    if "output" in arrays:
        found = found._replace(measured=f"{arrays['output'][0]} of plain images")
    return found._replace(are_pairs=are_pairs or chosen["embeddings"] == "queries")


def _read(
    path: Path, roles: Mapping[str, Sequence[str]], required: set[str]
) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the arrays of a file by role, with their names. A single array has the first role."""
    if path.suffix not in _SUFFIXES:
        raise ValueError(f"{path} must end in {', '.join(_SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        names, read = _open(path)
        usual = {role: [name for name in known if name in names] for role, known in roles.items()}
        chosen = {role: known[0] for role, known in usual.items() if known}
        first = next(iter(roles))
        if first not in chosen and len(names) == 1:
            chosen = {first: names[0]}
        for role in roles:
            if role in required and role not in chosen:
                others = ", ".join(names[:8]) or "no array"
                raise ValueError(
                    f"it needs an array called {roles[role][0]}, but has {others}: name arrays "
                    "with --queries, --documents, --labels, --ids and --by"
                )
        return {role: read(name) for role, name in chosen.items()}, chosen
    except UnreadableError:
        raise
    except Exception as error:
        raise unreadable(path, error) from None


def _open(path: Path) -> tuple[list[str], Callable[[str], Array]]:
    """Return the names of a file's arrays, and a function that reads one."""
    if path.suffix == ".npy":
        return ["embeddings"], lambda _: read_array(path, dimensions=(1, 2))
    if path.suffix == ".npz":
        return array_names(path), lambda name: read_array(path, name, dimensions=(1, 2))
    return list(pl.read_parquet_schema(path)), partial(_column, path)


def _column(path: Path, name: str) -> Array:
    column = pl.read_parquet(path, columns=[name])[name]
    if column.dtype in (pl.String, pl.Categorical, pl.Enum):
        return np.array(column.cast(pl.String).fill_null("").to_list(), dtype=str)
    if isinstance(column.dtype, pl.List):
        lengths = column.list.len().drop_nulls().unique().to_list()
        if len(lengths) > 1:
            raise ValueError(f"{name} has rows of different lengths")
        column = column.list.to_array(max([*lengths, 1]))
    return column.to_numpy()


def _numbers(path: Path, role: str, array: Array) -> Array:
    """Convert embeddings to floating-point numbers in native byte order."""
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{path}: {role} must hold real numbers, got {array.dtype}")
    return np.array(array, dtype=np.float32 if array.dtype.itemsize <= 4 else np.float64)


def _codes(path: Path, role: str, array: Array) -> Array | None:
    """Convert codes to integers, -1 if unknown; return ``None`` if all are unknown."""
    try:
        codes, names = numbered(array)
    except ValueError as error:
        raise ValueError(f"{path}: {role} {error}") from None
    return codes if names else None
