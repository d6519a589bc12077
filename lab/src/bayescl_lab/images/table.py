"""Labels and domains of images in a table beside them: CSV, TSV or Parquet.

One column names files, and others may hold labels and domains, as numbers or strings. Columns that
are not given are found by their names, which are compared by letters and digits, ignoring case.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bayescl_lab._arrays import UNKNOWN_WORDS, about_unknown
from bayescl_lab._fields import listed
from bayescl_lab._tables import check_widths, class_names, each, find_columns, open_table

_NAMES = {
    "file": each("file filename filepath path image imagefile imagename imagepath img imageid"),
    "label": each("label labels class classname category target type species diagnosis"),
    "domain": each(
        "domain batch source device scanner microscope scope camera site plate hospital centre "
        "center session"
    ),
}
"""Usual names of each kind of column. The first name in a header is used."""


@dataclass(frozen=True)
class ImageTable:
    """Labels and domains of images in a table.

    Attributes:
        path: Path of the table.
        columns: Name of the column of each kind: "file", and optionally "label" and "domain".
        rows: Values of each row, by kind. Empty if unknown.
        remarks: Remark on words that mean unknown, if there are any.
    """

    path: Path
    columns: dict[str, str]
    rows: list[dict[str, str]]
    remarks: list[str]

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
        given = {"file": file_column, "label": label_column, "domain": domain_column}
        columns = find_columns(path, table.header, _NAMES, given, required=("file",))
        frame = table.read(columns)
        check_widths(table, frame)
        try:
            files = class_names(frame["file"], ()).to_list()
            names = {
                it: class_names(frame[it], unknown).to_list() for it in columns if it != "file"
            }
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        known = [["" if it in unknown else it for it in column] for column in names.values()]
        rows = zip(files, *known, strict=True)
        kinds = ("file", *names)
        remarks = about_unknown(names.values(), unknown)
        return cls(path, columns, [dict(zip(kinds, row, strict=True)) for row in rows], remarks)

    def matched(self, names: Sequence[str]) -> tuple[dict[str, dict[str, str]], list[str]]:
        """Return the row of each file, and remarks on the columns and on missing rows.

        Args:
            names: Paths of files, relative to their folder. The path in a row may lack leading
                folders or the suffix, or have additional leading folders.

        Raises:
            ValueError: if no row matches a file, or two rows of one file differ.
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
                raise ValueError(f"{self.path}: {name} has rows with different labels or domains")
        if not found:
            shown = listed([repr(name) for name in missing], 3) or "nothing"
            raise ValueError(
                f"{self.path}: no value of column {self.columns['file']!r} matches an image. The "
                f"column has {shown}, the folder {names[0]!r}. Choose a column with --file-column"
            )
        kinds = (f"{kind}s from {name!r}" for kind, name in self.columns.items())
        remarks = [f"{self.path}: {', '.join(kinds)}"]
        remarks += (f"{self.path}: {line}" for line in self.remarks)
        if missing:
            count = f"{len(missing)} of {len(self.rows)} rows"
            remarks.append(
                f"{self.path}: {count} do not match exactly one image: {listed(missing, 3)}"
            )
        if rowless := [name for name in names if name not in found]:
            count = f"{len(rowless)} of {len(names)} images"
            remarks.append(f"{self.path}: {count} have no row: {listed(rowless, 3)}")
        return found, remarks


def _ends(path: str) -> Iterator[str]:
    """Return a path with all, fewer and no leading folders."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/".join(parts[begin:]) for begin in range(len(parts)))
