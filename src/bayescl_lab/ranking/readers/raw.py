"""The result of every reader: interactions with the ids of a file, before ids become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True)
class RawInteractions:
    """Interactions with the ids of their file.

    Attributes:
        train: columns ``user`` and ``item`` (whole numbers or text, never empty) and, if requested,
            ``rating`` and ``timestamp`` (finite numbers).
        test: the same for the test part, or None if the files have none.
        titles: columns ``item`` and ``title``, or None.
        name: name of the data set in tables and messages.
        report: what the reader left out, as phrase and count.
    """

    train: pl.DataFrame
    test: pl.DataFrame | None = None
    titles: pl.DataFrame | None = None
    name: str = "interactions"
    report: Mapping[str, int] = field(default_factory=dict)
