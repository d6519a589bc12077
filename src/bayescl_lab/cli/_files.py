"""Files to which commands write tables and arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from bayescl_lab._files import open_atomically

if TYPE_CHECKING:
    import polars as pl

TABLES = (".csv", ".parquet")
ARRAYS = (".npy", ".parquet")


def check_table_file(file: Path, suffixes: tuple[str, ...] = TABLES) -> Path:
    """Refuse a file that could not be written, before anything is computed."""
    if file.suffix not in suffixes:
        raise ValueError(f"out must end in {' or '.join(suffixes)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent}")
    if file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {file}")
    return file


def write_table(frame: pl.DataFrame, file: Path) -> None:
    """Write a table in the format of its file's suffix, completely or not at all."""
    write = frame.write_csv if file.suffix == ".csv" else frame.write_parquet
    with open_atomically(file) as opened:
        write(opened)
