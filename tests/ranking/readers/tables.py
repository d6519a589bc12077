"""Tables read by tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from bayescl_lab.ranking.readers.table import TableOptions, read_tables


def read_table(
    path: Path, columns: Mapping[str, str] | None = None, **options: Any
) -> pl.DataFrame:
    """The columns of one table, guessed or with the given names."""
    named = {f"{kind}_column": name for kind, name in (columns or {}).items()}
    return read_tables([path], None, TableOptions(**named, **options), name="x").train
