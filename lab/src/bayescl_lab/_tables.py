"""Tables with named columns: CSV, TSV, any separated text, and Parquet.

Polars reads text and Parquet, and only the wanted columns. The first line of text names the
columns. Blank lines and copies of the first line are skipped. The default separator is whichever of
tab, comma, semicolon and bar is most frequent in the first line, quoted names aside. Lines are
counted as in an editor.

=========  =====================================================================================
``quote``  values of text that start with a double quote
=========  =====================================================================================
default    quoted (RFC 4180) if all quotes of the file fit; else, tabs separate plain text, and
           other files are refused with the line. Refused as well: a quoted value with line breaks
           if its lines look like rows
"double"   quoted; they may have line breaks
"none"     quotes are ordinary characters
=========  =====================================================================================
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import mmap
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

QUOTES = ("double", "none")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_SEPARATORS = ("\t", ",", ";", "|")
_HEAD = 1 << 20  # bytes
_FORMATS = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"7z\xbc\xaf": "a 7z archive",
    b"ARROW1": "an Arrow (Feather) file",
    b"SQLite format 3": "an SQLite database",
    b"\x89HDF": "an HDF5 file",
    b"Obj\x01": "an Avro file",
    b"%PDF": "a PDF file",
    b"<?xml": "XML",
    b"<!": "HTML",
    b"<html": "HTML",
    b'{"': "JSON",
    b"[{": "JSON",
}
"""First bytes of files that are not tables, and their format."""

_EXACT: Mapping[object, int] = {pl.Float16: 2**11, pl.Float32: 2**24, pl.Float64: 2**53}
"""From here on, a floating-point type rounds whole numbers."""

_WHOLE = r"^(0|-?[1-9][0-9]{0,17}|-?[1-9][0-9]{0,14}\.0+|0\.0+)$"
"""A whole number in canonical form, also with the decimals that other programs add: 7, 7.0."""

Source = Path | bytes


def plain_name(name: str) -> str:
    """Reduce a column's name to lower-case letters and digits, for comparison.

    Example:
        >>> [plain_name(name) for name in ("user_id", "userId", "User ID")]
        ['userid', 'userid', 'userid']
    """
    return re.sub(r"[\W_]+", "", name.casefold())


def plain_values(column: pl.Series) -> pl.Series:
    """Convert a column of any type to Int64, Float64 or stripped text; null if missing.

    Floating-point numbers count as integers if all are whole, because other programs write integers
    next to missing values in this way. Text stays text. Categories, decimals and larger integers
    become text.

    Raises:
        ValueError: if the type of the column has no such form, or has rounded whole numbers.

    Example:
        >>> plain_values(pl.Series([3.0, None, 4.0])).to_list()
        [3, None, 4]
    """
    dtype = column.dtype
    if dtype.is_integer():
        whole = column.cast(pl.Int64, strict=False)
        return whole if whole.null_count() == column.null_count() else column.cast(pl.String)
    if dtype.is_float():
        column = column.set(~column.is_finite(), None)
        limit = _EXACT[type(dtype)]
        if (large := column.filter(column.abs() >= limit)).len():
            raise ValueError(
                f"{column.name} has the type {dtype}, which rounds whole numbers above "
                f"{limit:,}, such as {int(large[0])}: store integers or text"
            )
        whole = column.cast(pl.Int64)
        return whole if (whole == column).all() else column.cast(pl.Float64)
    if dtype.is_decimal():  # 7.00 is 7
        return column.cast(pl.String).str.replace(r"\.0+$", "")
    if dtype.is_nested() or dtype in (pl.Duration, pl.Time, pl.Object):
        raise ValueError(f"{column.name} has the type {dtype}: use numbers or text")
    try:
        return column.cast(pl.String).str.strip_chars()
    except pl.exceptions.ComputeError:  # bytes that are not UTF-8
        raise ValueError(f"{column.name} has the type {dtype}: use numbers or text") from None


def whole_numbers(text: pl.Series) -> pl.Series | None:
    """Convert text to Int64 if all values are whole numbers in canonical form, else ``None``.

    Example:
        >>> whole_numbers(pl.Series(["7", "8.0"])).to_list()
        [7, 8]
        >>> whole_numbers(pl.Series(["007", "8"]))
    """
    distinct = text.unique().cast(pl.String)
    if not distinct.str.contains(_WHOLE).all():
        return None
    text = text.cast(pl.String)
    if distinct.str.contains(".", literal=True).any():
        text = text.str.replace(r"\.0+$", "")
    return text.cast(pl.Int64)


@dataclass(frozen=True)
class Table:
    """A table that reads its columns on demand.

    Attributes:
        path: Path of the file.
        header: Name of each column, or its number from 1 if the text has no header.
        first: Values of the first line of text.
        rows: Columns by number from 0, and ``line``, the number of each row in the file. In text,
            ``surplus`` is not null in rows with more values than the first line.
        text: Lines of the file, or its path. ``None`` for Parquet.
        has_header: Whether the first line of text has the names of the columns.
        is_plain: Whether quotes were found to be ordinary characters.
    """

    path: Path
    header: list[str]
    first: list[str]
    rows: pl.LazyFrame
    text: Source | None = None
    has_header: bool = False
    is_plain: bool = False

    @property
    def unit(self) -> str:
        """Unit of ``line`` in messages."""
        return "row" if self.text is None else "line"

    def read(self, columns: Mapping[str, str]) -> pl.DataFrame:
        """Read columns with ``line`` and ``surplus``, given the columns by their new names.

        Raises:
            ValueError: if a column cannot be read, or the meaning of quotes is ambiguous.
        """
        first = {name: str(index) for index, name in reversed([*enumerate(self.header)])}
        places = {new: first[name] for new, name in columns.items()}
        chosen = (pl.col(place).alias(new) for new, place in places.items())
        with _one_line(self.path):
            rows = self.rows.select("line", "surplus", *chosen).collect(engine="streaming")
            if self.text is None:
                return rows
            if len(columns) > 1 and self.has_header:  # files with headers, one after the other
                again = (
                    pl.col(new).str.strip_chars("\ufeff ") == name for new, name in columns.items()
                )
                rows = rows.filter(~pl.all_horizontal(again).fill_null(False))
            empty = rows.select(pl.all_horizontal(pl.exclude("line").is_null())).to_series()
            if empty.any():  # in these columns, perhaps in all
                lines = pl.scan_lines(self.text, name="text", glob=False, row_index_name="line")
                text = pl.col("text").str.strip_chars(" \t,;|\r")
                blank = lines.filter(text == "").select(pl.col("line") + 1).collect()
                rows = rows.filter(~(empty & rows["line"].is_in(blank["line"].implode())))
        for column in rows.select(*places) if self.is_plain else ():
            if (quoted := rows.filter(column.str.contains('^".*"$'))).height:
                raise ValueError(
                    f"{self.path}, line {quoted['line'][0]}: {quoted[column.name][0]} is quoted, "
                    "but other quotes in the file are not closed: --quote none keeps all of them"
                )
        return rows


def open_table(
    path: Path,
    *,
    separator: str | None = None,
    encoding: str | None = None,
    has_header: bool = True,
    quote: str | None = None,
) -> Table:
    """Open a table and read its header.

    Args:
        path: Path of the file. Text may be compressed with gzip.
        separator: Character between values of text, or "tab". Default: detected.
        encoding: Encoding of text. Default: UTF-8, or UTF-16 with a byte order mark.
        has_header: Whether the first line of text has the names of the columns.
        quote: "double" or "none". Default: detected, see above.

    Raises:
        ValueError: if the file is missing, damaged or empty, or has another format or encoding.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    with path.open("rb") as file:
        start = file.read(16)
    if path.suffix.lower() not in _PARQUET_SUFFIXES and not start.startswith(b"PAR1"):
        with _one_line(path):
            return _open_text(path, start, separator, encoding, has_header, quote)
    with _one_line(path):
        rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        header = rows.collect_schema().names()
        rows = rows.rename({name: str(place) for place, name in enumerate(header)})
        rows = rows.with_row_index("line", offset=1).with_columns(surplus=None)
    return Table(path, header, [], rows)


def _open_text(
    path: Path,
    start: bytes,
    separator: str | None,
    encoding: str | None,
    has_header: bool,
    quote: str | None,
) -> Table:
    """Open separated text."""
    for first_bytes, name in _FORMATS.items():
        if start.lstrip().startswith(first_bytes):
            raise ValueError(f"{path} is {name}: convert it to CSV, TSV or Parquet")
    opener: Any = gzip.open if start.startswith(b"\x1f\x8b") else open
    text, head = _utf8(path, opener, encoding)
    if separator is None:
        line = re.sub('"[^"]*"', "", head.lstrip().partition("\n")[0])
        separator = max(_SEPARATORS, key=line.count)
    separator = "\t" if separator in ("tab", "\\t") else separator
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    is_quoted = quote != "none" and _has_quotes(text)
    if is_quoted:
        text, is_quoted = _with_checked_quotes(path, text, separator, quote)
        head = head if isinstance(text, Path) else text[:_HEAD].decode(errors="replace")
    lines = csv.reader(
        (line + "\n" for line in head.split("\n")),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
    )
    values = [value.strip() for value in next(filter(any, lines), [])]
    if not any(values):
        raise ValueError(f"{path} is empty")
    if any("\0" in value or "\ufffd" in value for value in values):
        raise ValueError(f"cannot read {path}: {_not_utf8(path)}")
    names = [*map(str, range(len(values))), "surplus"]
    rows = pl.scan_csv(
        text,
        separator=separator,
        quote_char='"' if is_quoted else None,
        has_header=False,
        schema=dict.fromkeys(names, pl.String),
        missing_columns="insert",
        truncate_ragged_lines=True,
        row_index_name="line",
        row_index_offset=1,
        glob=False,
    )
    header = values if has_header else [str(place + 1) for place in range(len(values))]
    above = lines.line_num - 1 + has_header
    is_plain = quote is None and not is_quoted and _has_quotes(text)
    return Table(path, header, values, rows.slice(above), text, has_header, is_plain)


def _utf8(path: Path, opener: Any, encoding: str | None) -> tuple[Source, str]:
    """Return UTF-8 text (a file, or its converted content), and its first characters."""
    with opener(path, "rb") as file:
        head = file.read(_HEAD)
        if encoding is None and head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            encoding = "utf-16"
        has_old_line_ends = b"\r" in head and b"\n" not in head
        if encoding is None and not has_old_line_ends:
            text = path if opener is open else head + file.read()
            return text, head.decode("utf-8-sig", errors="replace")
        try:
            decoded = (head + file.read()).decode(encoding or "utf-8")
        except LookupError:
            raise ValueError(
                f"encoding must be one that Python knows, such as latin-1, got {encoding!r}"
            ) from None
        except UnicodeError as error:
            raise ValueError(f"{path} is not {encoding or 'utf-8'} text: {error}") from None
    decoded = decoded.removeprefix("\ufeff")
    decoded = decoded if "\n" in decoded else decoded.replace("\r", "\n")
    return decoded.encode(), decoded[:_HEAD]


def _has_quotes(text: Source) -> bool:
    """Return whether there is a double quote."""
    if isinstance(text, bytes):
        return b'"' in text
    if text.stat().st_size == 0:
        return False
    with text.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b'"') >= 0


def _with_checked_quotes(
    path: Path, text: Source, separator: str, quote: str | None
) -> tuple[Source, bool]:
    """Return text in which Polars finds the rows of ``csv.reader``, and whether it has quotes.

    Polars reads quoted values that start and end beside separators, on one line. Other text is
    written again by the standard library, with line breaks in values replaced by blanks, and as
    many blank lines after the row.
    """
    comma = re.escape(separator)
    cell = rf'(?:"(?:[^"]|"")*"|[^"{comma}]*)'
    fits = pl.col("line").str.contains(rf"^\ufeff?{cell}(?:{comma}{cell})*\r?$")
    quoted = pl.scan_lines(text, glob=False).filter(pl.col("line").str.contains('"', literal=True))
    if quoted.select(fits.all()).collect().item():
        return text, True
    content = text.read_bytes() if isinstance(text, Path) else text
    lines = [line + "\n" for line in content.decode("utf-8-sig").split("\n")]
    reader = csv.reader(lines, delimiter=separator, strict=True)
    written = io.StringIO()
    writer = csv.writer(written, delimiter=separator, lineterminator="\n")
    before, commas = 0, lines[0].count(separator)
    try:
        for row in reader:
            own = lines[before : reader.line_num]
            if len(own) > 1:
                if quote is None and commas and all(it.count(separator) == commas for it in own):
                    raise ValueError(
                        f"{path}, line {before + 1}: a quoted value ends {len(own) - 1} lines "
                        "below, but these lines look like rows: pass --quote none if quotes are "
                        "ordinary characters, or --quote double if the value has line breaks"
                    )
                row = [" ".join(value.splitlines()) for value in row]
            writer.writerow(row)
            written.write("\n" * (len(own) - 1))
            before = reader.line_num
    except csv.Error as error:
        if separator == "\t" and quote is None:
            return text, False
        raise ValueError(
            f"{path}, line {before + 1}: broken quotes ({error}): pass --quote none if quotes are "
            "ordinary characters"
        ) from None
    return written.getvalue().encode(), True


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Convert errors of Polars to a ``ValueError`` without hints for programmers."""
    try:
        yield
    except (
        pl.exceptions.PolarsError,
        OSError,
        EOFError,
        zlib.error,
        csv.Error,
        UnicodeError,
    ) as error:
        text = str(error).partition("\n")[0]
        if re.search("utf-?8", text, re.IGNORECASE):
            text = _not_utf8(path)
        raise ValueError(f"cannot read {path}: {text}") from None


def _not_utf8(path: Path) -> str:
    """Return advice on a file that is not UTF-8, with the number of its first invalid line."""
    with path.open("rb") as file:
        opener: Any = gzip.open if file.read(2) == b"\x1f\x8b" else open
    with opener(path, "rb") as file:
        bad = (b"\0" in line or line.decode(errors="ignore").encode() != line for line in file)
        number = next((number for number, is_bad in enumerate(bad, 1) if is_bad), 1)
    return f"line {number} is not UTF-8: name the encoding, such as latin-1, with --encoding"
