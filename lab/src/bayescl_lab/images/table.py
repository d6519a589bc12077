"""Labels and domains of images in a table beside them: CSV, TSV or Parquet.

One column names files, and others may hold labels and domains, as numbers or strings. Columns that
are not given are found by their names, which are compared by letters and digits, ignoring case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bayescl_lab._arrays import UNKNOWN_WORDS
from bayescl_lab._tables import open_table, plain_name, plain_values, whole_numbers

_NAMES = {
    "file": "file filename filepath path image imagefile imagename imagepath img imageid",
    "label": "label labels class classname category target type species diagnosis",
    "domain": "domain batch source device scanner microscope scope camera site plate hospital "
    "centre center session",
}
"""Usual names of each kind of column. The first name in a header is used."""

_NAMED = 3  # names that a remark lists


@dataclass(frozen=True)
class ImageTable:
    """Labels and domains of images in a table.

    Attributes:
        path: Path of the table.
        columns: Name of the column of each kind: "file", and optionally "label" and "domain".
        rows: Values of each row, by kind. Empty if unknown.
        unknown: Number of labels and domains with each word that means unknown.
    """

    path: Path
    columns: dict[str, str]
    rows: list[dict[str, str]]
    unknown: Counter[str]

    @classmethod
    def read(
        cls,
        path: Path,
        *,
        file_column: str | None = None,
        label_column: str | None = None,
        domain_column: str | None = None,
        unknown: Sequence[str] = UNKNOWN_WORDS,
    ) -> ImageTable:
        """Read a table; raise ``ValueError`` if it cannot be read or a column is missing."""
        table = open_table(path)
        columns: dict[str, str] = {}
        plain = {plain_name(name): name for name in reversed(table.header)}
        given = {"file": file_column, "label": label_column, "domain": domain_column}
        for kind, name in given.items():
            usual = (plain[word] for word in _NAMES[kind].split() if word in plain)
            found = name or next((it for it in usual if it not in columns.values()), "")
            if found in table.header:
                columns[kind] = found
            elif name is not None or kind == "file":
                lacking = f"{name!r}" if name else "that looks like files"
                raise ValueError(
                    f"{path} has no column {lacking}; it has {', '.join(table.header[:12])}: "
                    f"name the right one with --{kind}-column"
                )
        frame = table.read(columns)
        if (wide := frame.filter(pl.col("surplus").is_not_null())).height:
            line = f"{path}, {table.unit} {wide['line'][0]}"
            raise ValueError(f"{line}: there are more values than in the first line")
        words: Counter[str] = Counter()
        values = []
        for kind in columns:
            try:
                text = plain_values(frame[kind]).cast(pl.String).fill_null("")
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
            text = text.str.normalize("NFC")
            if kind != "file":
                words.update(text.filter(text.is_in(unknown)).to_list())
                text = text.set(text.is_in(unknown), None)
            whole = whole_numbers(text)  # 1 and 1.0 are one class
            values.append((text if whole is None else whole.cast(pl.String)).fill_null(""))
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
        return cls(path, columns, rows, words)

    def matched(self, names: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
        """Return the row of each file, and remarks on the columns and on missing rows.

        Args:
            names: Paths of files, relative to their folder. A row may leave out leading folders or
                the suffix, or have further leading folders.

        Raises:
            ValueError: if no row names a file, or two rows of a file contradict each other.
        """
        by_end: dict[str, str | None] = {}  # None if several files have this end
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
            shown = listed([repr(name) for name in missing]) or "nothing"
            raise ValueError(
                f"{self.path}: column {self.columns['file']!r} matches no image of the folder: it "
                f"has {shown}, and the folder {names[0]!r}: name another with --file-column"
            )
        kinds = (f"{kind}s from {name!r}" for kind, name in self.columns.items())
        remarks = [f"{self.path}: {', '.join(kinds)}"]
        remarks += (f"{self.path}: {line}" for line in unknown_words(self.unknown))
        if missing:
            count = f"{len(missing)} of {len(self.rows)} rows"
            remarks.append(f"{self.path}: {count} match no image, or several: {listed(missing)}")
        if rowless := [name for name in names if name not in found]:
            count = f"{len(rowless)} of {len(names)} images"
            remarks.append(f"{self.path}: {count} have no row: {listed(rowless)}")
        return found, remarks


def listed(names: Sequence[str]) -> str:
    """Join the first few of many names."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def unknown_words(counts: Mapping[str, int]) -> list[str]:
    """Return a remark on words that were read as unknown."""
    shown = [f"{word!r} ({count})" for word, count in counts.items() if word]
    words = f"strings that mean unknown: {', '.join(shown)} (--unknown to change)"
    return [words] if shown else []


def _ends(path: str) -> Iterator[str]:
    """Return a path with all, fewer and no leading folders."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/".join(parts[begin:]) for begin in range(len(parts)))
