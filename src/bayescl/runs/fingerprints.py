"""Whether files are still what they were: sizes, rows and hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

_AT_ONCE = 1 << 22
"""Bytes read at a time."""


class FileRecord(TypedDict):
    """What is remembered of a file.

    Attributes:
        path: where it was, as an absolute path.
        bytes: its size.
        rows: its lines; of a Parquet file its rows.
        sha256: of its content.
    """

    path: str
    bytes: int
    rows: int
    sha256: str


def file_records(files: Iterable[Path]) -> list[FileRecord]:
    """What to remember of some files.

    Raises:
        OSError: if one of them cannot be read.
    """
    return [_record(file) for file in files]


def changes(before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> list[str]:
    """How files differ from those that a run was trained on, a few words for each file.

    Args:
        before: what was remembered.
        now: the same files as they are.

    Example:
        >>> before = {"path": "/a/my.csv", "rows": 10, "bytes": 50, "sha256": "0f"}
        >>> changes([before], [{**before, "rows": 13, "sha256": "1e"}])
        ['my.csv: 3 more rows than the run was trained on']
    """
    found = []
    current = {Path(one["path"]).name: one for one in now}
    known = {Path(one["path"]).name: one for one in before}
    for name, one in known.items():
        other = current.get(name)
        if other is None:
            found.append(f"{name}: the file is gone")
        elif other["sha256"] != one["sha256"]:
            found.append(f"{name}: {_difference(one['rows'], other['rows'])}")
    found += [
        f"{name}: the run was not trained on this file" for name in current if name not in known
    ]
    return found


def _difference(before: int, now: int) -> str:
    """The number of rows that came or went, or that the content is another one."""
    if now == before:
        return f"other content than the run was trained on, in as many rows ({now})"
    rows = "row" if abs(now - before) == 1 else "rows"
    word = "more" if now > before else "fewer"
    return f"{abs(now - before)} {word} {rows} than the run was trained on"


def _record(file: Path) -> FileRecord:
    """What to remember of one file."""
    digest, rows, blank = hashlib.sha256(), 0, True
    with file.open("rb") as opened:
        while chunk := opened.read(_AT_ONCE):
            digest.update(chunk)
            rows += chunk.count(b"\n")
            blank = chunk.endswith(b"\n")
    rows += not blank
    if file.suffix == ".parquet":
        import polars as pl

        rows = int(pl.scan_parquet(file).select(pl.len()).collect().item())
    return {
        "path": str(file.resolve()),
        "bytes": file.stat().st_size,
        "rows": rows,
        "sha256": digest.hexdigest(),
    }
