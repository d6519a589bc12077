"""Tables with named columns: CSV, TSV, any separated text, and Parquet.

In text, the first line names the columns, values may be quoted with double quotes (RFC 4180), and
blank lines are skipped. The default separator is whichever of tab, comma, semicolon and bar is most
frequent in the first line, quoted names aside. Lines are counted as Polars counts rows: a quoted
value with line breaks is one line. Polars reads the wanted columns only, and unpacks ``.gz``.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

PARQUET = (".parquet", ".pq")
_SEPARATORS = ("\t", ",", ";", "|")
_HEAD = 1 << 20  # bytes


def plain_name(name: str) -> str:
    """Reduce a column's name to lower-case letters and digits, for comparison.

    Example:
        >>> [plain_name(name) for name in ("user_id", "userId", "User ID")]
        ['userid', 'userid', 'userid']
    """
    return re.sub(r"[\W_]+", "", name.casefold())


@dataclass(frozen=True)
class Table:
    """A table that reads its columns on demand.

    Attributes:
        path: Path of the file.
        header: Name of each column, or its number from 1 if the text has no header.
        first: Values of the first line of text.
        rows: Columns by number from 0, and ``line``, the number of each row in the file. In text,
            ``surplus`` is not null in rows with more values than the first line.
    """

    path: Path
    header: list[str]
    first: list[str]
    rows: pl.LazyFrame

    @property
    def unit(self) -> str:
        """Unit of ``line`` in messages."""
        return "line" if self.first else "row"

    def read(self, columns: Mapping[str, str]) -> pl.DataFrame:
        """Read columns with ``line`` and ``surplus``, given the columns by their new names."""
        places = {new: str(self.header.index(name)) for new, name in columns.items()}
        chosen = (pl.col(place).alias(new) for new, place in places.items())
        with _one_line(self.path):
            rows = self.rows.select("line", "surplus", *chosen)
            return rows.collect(engine="streaming")


def open_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    has_header: bool = True,
) -> Table:
    """Open a table and read its header.

    Args:
        path: Path of the file. Text may be compressed with gzip.
        separator: Character between values of text, or "tab". Default: detected.
        encoding: Encoding of text. Default: UTF-8, or UTF-16 with a byte order mark.
        has_header: Whether the first line of text has the names of the columns.

    Raises:
        ValueError: if the file is missing, damaged or empty, or has another encoding.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    values: list[str] = []
    with _one_line(path):
        if path.suffix.lower() in PARQUET:
            rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            rows = rows.select(~(pl.selectors.nested() | pl.selectors.binary()))
            header = rows.collect_schema().names()
            rows = rows.rename({name: str(place) for place, name in enumerate(header)})
            rows = rows.with_row_index("line", offset=1).with_columns(surplus=None)
        else:
            rows, values = _text(path, separator, encoding, has_header=has_header)
            header = values if has_header else [str(place + 1) for place in range(len(values))]
    return Table(path, header, values, rows)


def _text(
    path: Path, separator: str | None, encoding: str | None, *, has_header: bool
) -> tuple[pl.LazyFrame, list[str]]:
    """Return the rows of separated text, and the values of its first line."""
    source, head = _source(path, encoding)
    if separator is None:
        line = re.sub('"[^"]*"', "", head.lstrip().partition("\n")[0])
        separator = max(_SEPARATORS, key=line.count)
    separator = "\t" if separator in ("tab", "\\t") else separator
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    lines = csv.reader(head.splitlines(keepends=True), delimiter=separator)
    values = [value.strip() for value in next(filter(any, lines), [])]
    if not any(values):
        raise ValueError(f"{path} is empty")
    if any("\0" in value or "\ufffd" in value for value in values):
        raise ValueError(f"cannot read {path}: {_not_utf8(path)}")
    names = [*map(str, range(len(values))), "surplus"]
    rows = pl.scan_csv(
        source,
        separator=separator,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        missing_columns="insert",
        truncate_ragged_lines=True,
        row_index_name="line",
        row_index_offset=1,
        glob=False,
    )
    is_blank = pl.all_horizontal(pl.col(names).is_null())
    return rows.filter(~is_blank).slice(int(has_header)), values


def _source(path: Path, encoding: str | None) -> tuple[Path | bytes, str]:
    """Return the input for Polars (a file or its converted content) and the first bytes of text."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        head = file.read(_HEAD)
        if encoding is None and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        has_old_line_ends = b"\r" in head and b"\n" not in head
        if encoding is None and not has_old_line_ends:
            return path, head.decode("utf-8-sig", errors="replace")
        try:
            text = (head + file.read()).decode(encoding or "utf-8")
        except LookupError:
            raise ValueError(
                f"encoding must be one that Python knows, such as latin-1, got {encoding!r}"
            ) from None
        except UnicodeError as error:
            raise ValueError(f"{path} is not {encoding or 'utf-8'} text: {error}") from None
    text = text.removeprefix("\ufeff")
    text = text if "\n" in text else text.replace("\r", "\n")
    return text.encode(), text[:_HEAD]


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Convert errors of Polars to a ``ValueError`` without hints for programmers."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error, csv.Error) as error:
        text = str(error).partition("\n")[0]
        if re.search("utf-?8", text, re.IGNORECASE):
            text = _not_utf8(path)
        elif quoted := re.search("could not parse `([^`]{1,60})", text):
            text = f"broken quotes near {quoted[1]!r}"
        raise ValueError(f"cannot read {path}: {text}") from None


def _not_utf8(path: Path) -> str:
    """Return advice on a file that is not UTF-8, with the number of its first invalid line."""
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    with opener(path, "rb") as file:
        bad = (b"\0" in line or line.decode(errors="ignore").encode() != line for line in file)
        number = next((number for number, is_bad in enumerate(bad, 1) if is_bad), 1)
    return f"line {number} is not UTF-8: name the encoding, such as latin-1, with --encoding"
