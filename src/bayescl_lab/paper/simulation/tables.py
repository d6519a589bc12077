"""A small table in a CSV file: the results of an experiment, one record per row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Value = str | float | int

SIGNIFICANT_DIGITS = 6
"""Significant digits: enough for any figure, and few enough to hide the order of a sum."""


@dataclass(frozen=True)
class Table:
    """Records with the same keys.

    Numbers are rounded when records are added, so a table read from its file equals the one
    written.

    Args:
        records: the rows.

    Example:
        >>> table = Table.of([{"n": 1, "error": 0.123456789}, {"n": 2, "error": 0.5}])
        >>> table.where(n=1).numbers("error")
        [0.123457]
        >>> print(table.as_csv(), end="")
        n,error
        1,0.123457
        2,0.5
    """

    records: tuple[Mapping[str, Value], ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Value]]) -> Table:
        """A table of records, with floats rounded."""
        return cls(tuple({key: _rounded(v) for key, v in record.items()} for record in records))

    @classmethod
    def read(cls, file: Path) -> Table:
        """The table in a CSV file."""
        with file.open(encoding="utf-8", newline="") as stream:
            return cls(
                tuple({k: parsed(v) for k, v in row.items()} for row in csv.DictReader(stream))
            )

    def as_csv(self) -> str:
        """The table as text, with a header."""
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(self.records[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.records)
        return stream.getvalue()

    def where(self, **wanted: Value) -> Table:
        """The records with these values."""
        return Table(
            tuple(r for r in self.records if all(r[key] == v for key, v in wanted.items()))
        )

    def numbers(self, column: str) -> list[float]:
        """A column of numbers."""
        return [float(record[column]) for record in self.records]

    def distinct(self, column: str) -> list[Value]:
        """The distinct values of a column, in order of appearance."""
        return list(dict.fromkeys(record[column] for record in self.records))

    def number(self, column: str, **wanted: Value) -> float:
        """The single number in the column where other columns have these values.

        Raises:
            ValueError: if no record or several records match.
        """
        found = self.where(**wanted).numbers(column)
        if len(found) != 1:
            raise ValueError(f"{len(found)} records have {wanted}, expected one")
        return found[0]


def _rounded(value: Value) -> Value:
    """A float rounded to few digits; whole numbers and text unchanged."""
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value


def parsed(text: str) -> Value:
    """The number in a cell, or else its text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
