"""What every reader returns: interactions as a file tells them, before ids become rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl


@dataclass(frozen=True)
class RawInteractions:
    """Interactions with the ids of their file.

    Attributes:
        train: columns ``user`` and ``item`` (whole numbers or text, never empty) and, where they
            were asked for, ``rating`` and ``timestamp`` (finite numbers).
        test: the same for the test part, or None where the files make no difference.
        titles: columns ``item`` and ``title``, or None.
        name: what tables and messages call the data set.
        report: what the reader left out, as phrase and count.
    """

    train: pl.DataFrame
    test: pl.DataFrame | None = None
    titles: pl.DataFrame | None = None
    name: str = "interactions"
    report: Mapping[str, int] = field(default_factory=dict)
