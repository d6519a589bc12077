"""Tables written and read by tests."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import read_interactions_of


def read_table(
    path: Path, columns: Mapping[str, str] | None = None, **options: Any
) -> pl.DataFrame:
    """The columns of one table, guessed or with the given names."""
    named = {f"{kind}_column": name for kind, name in (columns or {}).items()}
    return read_interactions_of(path, RankingData(**named, **options))[0]


def zipped(members: Mapping[str, bytes]) -> bytes:
    """A zip archive of some files."""
    with zipfile.ZipFile(file := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def parquet(rows: list[tuple], columns: list[str]) -> bytes:
    """A Parquet file."""
    pl.DataFrame(rows, schema=columns, orient="row").write_parquet(file := io.BytesIO())
    return file.getvalue()
