"""A part of an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayescl_lab.report.tables import Table


@dataclass
class Section:
    """The part of a page on one folder; text may use ``**`` for bold and backticks for code.

    Attributes:
        title: its heading.
        lead: paragraphs below it.
        tables: with their own titles and notes.
        findings: sentences made from the figures.
        pictures: captions with PNG files.
        settings: names and values.
        origin: what produced the figures.
        scores: one column per score in the table of several runs.
    """

    title: str
    lead: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    pictures: list[tuple[str, bytes]] = field(default_factory=list)
    settings: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, str] = field(default_factory=dict)
