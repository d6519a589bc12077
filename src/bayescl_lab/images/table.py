"""Labels and domains of images in a table beside them: CSV, TSV or Parquet.

One column names files, and others may hold labels and domains, as numbers or words. Columns that
are not given are found by their names, which are compared by letters and digits, ignoring case.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAMES = {
    "file": "file filename filepath path image imagefile imagename imagepath img imageid",
    "label": "label labels class classname category target type species diagnosis",
    "domain": "domain batch source device scanner microscope scope camera site plate hospital "
    "center centre session",
}
"""Usual names of each kind of column; the first that a header has is taken."""

_UNKNOWN = ("", "-1", "nan", "none", "null", "na", "n/a")
"""Values, in lower case, that stand for an unknown label or domain."""


@dataclass(frozen=True)
class ImageTable:
    """Labels and domains of images in a table.

    Attributes:
        path: path of the table.
        columns: name of the column of each kind: "file", and maybe "label" and "domain".
        rows: the values of each row, by kind.
    """

    path: Path
    columns: dict[str, str]
    rows: list[dict[str, str]]

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        file_column: str | None = None,
        label_column: str | None = None,
        domain_column: str | None = None,
    ) -> ImageTable:
        """Read a table; a ``ValueError`` if it cannot be read or lacks a column."""
        header, *rows = _parquet(path) if path.suffix == ".parquet" else _text(path)
        columns: dict[str, str] = {}
        plain = {re.sub(r"[\W_]+", "", name.casefold()): name for name in reversed(header)}
        given = {"file": file_column, "label": label_column, "domain": domain_column}
        for kind, name in given.items():
            usual = (plain[word] for word in _NAMES[kind].split() if word in plain)
            found = name or next((it for it in usual if it not in columns.values()), "")
            if found in header:
                columns[kind] = found
            elif name is not None or kind == "file":
                lacking = f"{name!r}" if name else "that looks like files"
                raise ValueError(
                    f"{path} has no column {lacking}; it has {', '.join(header[:12])}: "
                    f"name the right one with --{kind}-column"
                )
        places = {kind: header.index(name) for kind, name in columns.items()}
        table = [{kind: row[place].strip() for kind, place in places.items()} for row in rows]
        for row in table:
            for kind in set(row) - {"file"}:
                row[kind] = "" if row[kind].casefold() in _UNKNOWN else row[kind]
        return cls(path, columns, table)

    def matched(self, names: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
        """The row of each file that has one, and remarks on the columns and on what is missing.

        Args:
            names: files, relative to their folder. A row may leave out leading folders or the
                suffix, or have further leading folders.

        Raises:
            ValueError: if no row names a file, or two rows of a file contradict each other.
        """
        by_end: dict[str, str | None] = {}  # None where several files end so
        for file in names:
            stem = file.rpartition(".")[0]
            ends = {end for path in (file, stem) for end in _ends(path)}
            by_end.update((end, None if end in by_end else file) for end in ends)
        by_end.update((name, name) for name in names)
        found: dict[str, dict[str, str]] = {}
        missing: list[str] = []
        for row in self.rows:
            wanted = row["file"].replace("\\", "/")
            name = next((by_end[end] for end in _ends(wanted) if end in by_end), None)
            if name is None:
                missing.append(row["file"])
            elif found.setdefault(name, row) | {"file": ""} != row | {"file": ""}:
                raise ValueError(f"{self.path}: rows of {name} contradict each other")
        if not found:
            shown = ", ".join(map(repr, missing[:3])) or "nothing"
            raise ValueError(
                f"{self.path}: column {self.columns['file']!r} names no image of the folder: it "
                f"holds {shown}, the folder {names[0]!r}: name the right one with --file-column"
            )
        kinds = (f"{kind}s from {name!r}" for kind, name in self.columns.items())
        remarks = [f"{self.path}: {', '.join(kinds)}"]
        if missing:
            listed = ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)
            remarks.append(
                f"{self.path}: {len(missing)} of {len(self.rows)} rows name no image, or several: "
                f"{listed}"
            )
        if rowless := [name for name in names if name not in found]:
            listed = ", ".join(rowless[:3]) + ", ..." * (len(rowless) > 3)
            remarks.append(
                f"{self.path}: {len(rowless)} of {len(names)} images have no row: {listed}"
            )
        return found, remarks


def _ends(path: str) -> Iterator[str]:
    """A path with ever fewer of its leading folders."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/".join(parts[begin:]) for begin in range(len(parts)))


def _text(path: Path) -> list[list[str]]:
    """The cells of a text, the header first; blank lines are skipped."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        header = text.lstrip().partition("\n")[0]
        separator = max("\t,;|", key=header.count)
        reader = csv.reader(io.StringIO(text), delimiter=separator, strict=True)
        rows = [row for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not a table in UTF-8"
        raise ValueError(f"cannot read {path}: {reason}") from None
    if not rows:
        raise ValueError(f"{path} is empty")
    header_row = [cell.strip() for cell in rows[0]]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header_row):
            raise ValueError(
                f"{path}: row {number} has {len(row)} values for {len(header_row)} columns"
            )
    return [header_row, *rows[1:]]


def _parquet(path: Path) -> list[list[str]]:
    """The cells of a Parquet file as text, the header first."""
    import polars as pl

    try:
        frame = pl.read_parquet(path).select(~pl.selectors.nested())
        # Whole numbers beside missing ones are often stored as floating-point numbers.
        floats = pl.selectors.float().fill_nan(None)
        whole = [it.name for it in frame.select(floats) if (it.floor() == it).all()]
        frame = frame.with_columns(floats).with_columns(pl.col(whole).cast(pl.Int64))
        frame = frame.cast(pl.String).fill_null("")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise ValueError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
    return [frame.columns, *map(list, frame.rows())]
