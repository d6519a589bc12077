"""A run's record of its data: ``data.json`` and an archive of arrays."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayescl_lab._files import open_atomically
from bayescl_lab.runs.folder import RunFolder, read_json

Memory = TypeVar("Memory")
Arrays = Mapping[str, NDArray[Any]]


def write_memory(
    folder: RunFolder, archive: str, arrays: Arrays, record: Mapping[str, object]
) -> None:
    """Write both files into a run's folder.

    Args:
        folder: of the run.
        archive: the name of the archive.
        arrays: content of the archive.
        record: content of ``data.json``.
    """
    with open_atomically(folder.path / archive) as file:
        np.savez(file, allow_pickle=False, **arrays)  # not compressed, to be mapped
    folder.write_result(record, name=folder.data_file.name)  # last: it says that all is there


def read_memory(
    folder: RunFolder, archive: str, made: Callable[[Mapping[str, Any], Arrays], Memory]
) -> Memory | None:
    """The record in a run's folder; None for a folder of format 1.

    Args:
        folder: of the run.
        archive: the name of the archive.
        made: makes the memory from the content of ``data.json`` and the arrays.

    Raises:
        ValueError: if a file is missing or damaged.
    """
    if not folder.data_file.is_file():
        return None
    record, file = read_json(folder.data_file), folder.path / archive
    try:
        with file.open("rb") as opened, np.load(opened, allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        return made(record, arrays)
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{file} is damaged or missing") from None
