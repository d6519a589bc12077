"""A run's record of its data: ``data.json`` and an archive of arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayescl_lab._files import open_atomically
from bayescl_lab.runs.folder import RunFolder, read_json, write_json

Arrays = Mapping[str, NDArray[Any]]


def write_record(
    folder: RunFolder, archive: str, arrays: Arrays, description: Mapping[str, object]
) -> None:
    """Write an archive of arrays and ``data.json`` into a run's folder."""
    write_arrays(folder.path / archive, arrays)
    write_json(folder.data_file, description)  # last: it marks the record as complete


def read_record(folder: RunFolder, archive: str) -> tuple[dict[str, Any], Arrays]:
    """Return the content of ``data.json`` and of the archive in a run's folder."""
    if not folder.data_file.is_file():
        raise ValueError(f"{folder.path} has no record of its data")
    return read_json(folder.data_file), read_arrays(folder.path / archive)


def write_arrays(path: Path, arrays: Arrays) -> None:
    """Write named arrays to an ``.npz`` file."""
    with open_atomically(path) as file:
        np.savez(file, allow_pickle=False, **arrays)  # uncompressed, for memory mapping


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read a file of :func:`write_arrays`; raise ``ValueError`` if it is missing or damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} is damaged or missing") from None


def places(ids: Iterable[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of each id among known ids, compared as text; -1 if unknown."""
    wanted = list(map(str, ids))
    rows = {str(name): row for row, name in enumerate(known.tolist())} if wanted else {}
    return np.array([rows.get(name, -1) for name in wanted], dtype=np.int64)
