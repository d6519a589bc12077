"""A run's record of its data: ``data.json``, an archive of arrays, and what files looked like."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescl_lab._files import open_atomically
from bayescl_lab.runs.folder import RunFolder, read_json

Arrays = Mapping[str, NDArray[Any]]


def write_record(
    folder: RunFolder, archive: str, arrays: Arrays, description: Mapping[str, object]
) -> None:
    """Write an archive of arrays and ``data.json`` into a run's folder."""
    write_arrays(folder.path / archive, arrays)
    folder.write_result(description, name=folder.data_file.name)  # last: it says that all is there


def read_record(folder: RunFolder, archive: str) -> tuple[dict[str, Any], Arrays]:
    """The content of ``data.json`` and of the archive in a run's folder."""
    if not folder.data_file.is_file():
        raise ValueError(f"{folder.path} has no record of its data")
    return read_json(folder.data_file), read_arrays(folder.path / archive)


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an ``.npz`` file, completely or not at all."""
    with open_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)  # not compressed, to be mapped


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read what :func:`write_arrays` wrote; a ``ValueError`` if it is missing or damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} is damaged or missing") from None


def places(ids: Iterable[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each id among known ones, compared as text; -1 if it is unknown."""
    wanted = [str(one) for one in ids]
    place = {str(one): number for number, one in enumerate(known.tolist())} if wanted else {}
    return np.array([place.get(one, -1) for one in wanted], dtype=np.int64)


_AT_ONCE = 1 << 22
"""Bytes read at a time."""
_COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
_PARQUET = (".parquet", ".pq")

FileRecord = Mapping[str, Any]
"""A file's absolute ``path``, size in ``bytes``, ``sha256``, and ``rows``: lines, or rows of a
Parquet file; None for a compressed or damaged file."""


def file_records(files: Iterable[Path]) -> list[FileRecord]:
    """The records of some files.

    Raises:
        OSError: if one of them cannot be read.
    """
    return [_file_record(file) for file in files]


def _file_record(file: Path) -> FileRecord:
    digest, lines, chunk = hashlib.sha256(), 0, b"\n"
    with file.open("rb") as opened:
        while more := opened.read(_AT_ONCE):
            chunk = more
            digest.update(chunk)
            lines += chunk.count(b"\n")
    rows: int | None = lines + (not chunk.endswith(b"\n"))
    kind = file.suffix.lower()
    if kind in _COMPRESSED:
        rows = None
    elif kind in _PARQUET:
        rows = _parquet_rows(file)
    place = {"path": str(file.resolve()), "bytes": file.stat().st_size}
    return {**place, "rows": rows, "sha256": digest.hexdigest()}


def _parquet_rows(file: Path) -> int | None:
    import polars as pl

    try:
        return int(pl.scan_parquet(file, glob=False).select(pl.len()).collect().item())
    except pl.exceptions.PolarsError:  # whoever reads it says what is wrong
        return None


def changes(before: Sequence[FileRecord], now: Sequence[FileRecord]) -> list[str]:
    """How files differ from those that a run was trained on, a phrase per file.

    Example:
        >>> before = {"path": "/a/my.csv", "rows": 10, "bytes": 50, "sha256": "0f"}
        >>> changes([before], [{**before, "rows": 13, "sha256": "1e"}])
        ['my.csv: 3 more rows than the run was trained on']
    """
    shown = _short_names([record["path"] for record in (*before, *now)])
    current = {shown[record["path"]]: record for record in now}
    known = {shown[record["path"]]: record for record in before}
    phrases = []
    for name, record in known.items():
        other = current.get(name)
        if other is None:
            phrases.append(f"{name}: the file is missing")
        elif other["sha256"] != record["sha256"]:
            phrases.append(f"{name}: {_difference(record['rows'], other['rows'])}")
    unknown = [name for name in current if name not in known]
    return phrases + [f"{name}: the run was not trained on this file" for name in unknown]


def _short_names(paths: Iterable[str]) -> dict[str, str]:
    """Names of files, with their folders if two have the same name."""
    distinct = sorted(set(paths))
    names = {path: Path(path).name for path in distinct}
    if len(set(names.values())) == len(distinct):
        return names
    shared = os.path.commonpath(distinct)
    return {path: Path(path).relative_to(shared).as_posix() for path in distinct}


def _difference(before: int | None, now: int | None) -> str:
    """The number of rows added or removed, or that the content has changed."""
    if before is None or now is None:
        return "other content than the run was trained on"
    if now == before:
        return f"other content than the run was trained on, in the same number of rows ({now})"
    rows = "row" if abs(now - before) == 1 else "rows"
    word = "more" if now > before else "fewer"
    return f"{abs(now - before)} {word} {rows} than the run was trained on"
