"""A run's record of its data: ``data.json`` and an archive of arrays."""

from __future__ import annotations

import io
from collections.abc import Container, Iterable, Mapping
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl_lab._files import write_atomically
from bayescl_lab._types import AnyArray, Config
from bayescl_lab.runs.digest import archive_with_digest, has_digest
from bayescl_lab.runs.folder import RunFolder, read_json, write_json

Arrays = Mapping[str, AnyArray]


def write_record(
    folder: RunFolder, archive: str, arrays: Arrays, description: Mapping[str, object]
) -> None:
    """Write an archive of arrays and ``data.json`` into a run's folder."""
    write_arrays(folder.path / archive, arrays, folder.identity)
    write_json(
        folder.data_file, description, folder.identity
    )  # last: it marks the record as complete


def read_record(folder: RunFolder, archive: str) -> tuple[Config, Arrays]:
    """Return the content of ``data.json`` and of the archive in a run's folder."""
    if not folder.data_file.is_file():
        raise ValueError(f"{folder.path} has no record of its data: {folder.data_file} is missing")
    identity = folder.identity
    return read_json(folder.data_file, identity), read_arrays(folder.path / archive, identity)


def write_arrays(path: Path, arrays: Arrays, identity: str | None = None) -> None:
    """Write named arrays to an ``.npz`` file, with a digest if the identity of a run is given."""
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    archive = content.getvalue()
    write_atomically(path, archive if identity is None else archive_with_digest(archive, identity))


def read_arrays(path: Path, identity: str) -> dict[str, AnyArray]:
    """Read the arrays of a run; raise ``ValueError`` if they are missing or damaged."""
    if not path.is_file():
        raise ValueError(f"{path} is missing")
    content = path.read_bytes()
    if not has_digest(content, identity):
        raise ValueError(f"{path} is damaged or of another run: its digest is wrong")
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def indices_of(ids: Iterable[object], known: AnyArray) -> NDArray[np.int64]:
    """Return the index of each id among known ids, compared as text; -1 if unknown."""
    wanted = list(map(str, ids))
    rows = {str(name): row for row, name in enumerate(known.tolist())} if wanted else {}
    return np.array([rows.get(name, -1) for name in wanted], dtype=np.int64)


def hint(name: str, known: Container[str]) -> str:
    """Return "; 3.0 is known" if a known id differs only in ".0" or leading zeros."""
    close = (f"{name}.0", name.removesuffix(".0"), name.lstrip("0"))
    return next((f"; {one} is known" for one in close if one in known), "")


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Put an apostrophe before text that a spreadsheet would run as a formula.

    Numbers such as "-5" are not changed.
    """
    text = pl.col(pl.String)
    is_formula = text.str.contains(r"^[=+\-@\t\r]") & text.cast(pl.Float64, strict=False).is_null()
    return frame.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())
