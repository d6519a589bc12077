"""Tables with named columns: CSV, TSV, any separated text, and Parquet.

Polars reads text and Parquet, and only the wanted columns. The first line of text names the
columns. Blank lines and copies of the first line are skipped. The default separator is whichever of
tab, comma, semicolon and bar is most frequent in the first line, quoted names aside. Lines are
counted as in an editor.

=========  =====================================================================================
``quote``  values of text that start with a double quote
=========  =====================================================================================
default    quoted (RFC 4180). Errors: quotes that do not fit, and quoted values with line breaks if
           their lines look like rows
"double"   quoted; they may have line breaks
"none"     quotes are ordinary characters
=========  =====================================================================================
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from bayescl_lab._fields import listed
from bayescl_lab._files import unreadable

_PARQUET_SUFFIXES = (".parquet", ".pq")
_SEPARATORS = ("\t", ",", ";", "|")
_HEAD = 1 << 20  # characters that hold the first line

_EXACT: Mapping[object, int] = {pl.Float16: 2**11, pl.Float32: 2**24, pl.Float64: 2**53}
"""From here on, a floating-point type rounds whole numbers."""

_WHOLE = r"^(0|-?[1-9][0-9]{0,17}|-?[1-9][0-9]{0,14}\.0+|0\.0+)$"
"""A whole number in canonical form, also with the decimals that other programs add: 7, 7.0."""


@dataclass(frozen=True)
class Table:
    """A table that reads its columns on demand.

    Attributes:
        path: Path of the file.
        header: Name of each column, or its number from 1 if the text has no header.
        first: Values of the first line of text.
        scan: Function of the indices of numeric columns. It returns all columns by index, and
            ``line``, the number of each row in the file. In text, invalid values of numeric columns
            are null, other columns are text, and ``surplus`` is not null in rows with more values
            than the first line.
        has_header: Whether the first line of text has the names of the columns.
        unit: Unit of ``line`` in messages, "line" of text or "row" of Parquet.
    """

    path: Path
    header: list[str]
    first: list[str]
    scan: Callable[[Collection[str]], pl.LazyFrame]
    has_header: bool = True
    unit: str = "line"

    def read(self, columns: Mapping[str, str], *, numeric: bool = False) -> pl.DataFrame:
        """Read columns under new names, together with ``line`` and ``surplus``.

        Args:
            columns: Name of each column in the table, by its new name.
            numeric: Whether to read columns of text as Float64, null if invalid. Default: False.

        Raises:
            ValueError: if a column cannot be read.
        """
        index_of = {name: str(index) for index, name in reversed([*enumerate(self.header)])}
        indices = [index_of[name] for name in columns.values()]
        is_text = self.unit == "line"
        try:
            rows = self.scan(indices if numeric else ())
            frame = rows.select(pl.col(["line", "surplus", *indices])).collect(engine="streaming")
            frame.columns = ["line", "surplus", *columns]
            if is_text and columns and frame.to_series(2).has_nulls():  # perhaps blank lines
                values = pl.exclude("line").str.strip_chars().fill_null("")
                blank = self.scan(()).filter(pl.all_horizontal(values == "")).select("line")
                frame = frame.filter(~pl.col("line").is_in(blank.collect()["line"].implode()))
        except (pl.exceptions.PolarsError, OSError) as error:
            raise unreadable(self.path, error) from None
        if is_text and self.has_header and len(columns) > 1 and not numeric:
            # Files with headers, one after the other.
            again = (pl.col(new).str.strip_chars("\ufeff ") == it for new, it in columns.items())
            frame = frame.filter(~pl.all_horizontal(again).fill_null(False))
        return frame


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
        ValueError: if the file is missing, damaged or empty, or is not text in this encoding.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if (shown := str(path).encode("utf-8", "backslashreplace").decode()) != str(path):
        raise ValueError(f"cannot read {shown}: its path is not UTF-8: rename the file")
    try:
        with path.open("rb") as file:
            is_parquet = file.read(4) == b"PAR1" or path.suffix.lower() in _PARQUET_SUFFIXES
        if not is_parquet:
            text = _decoded(path, encoding)
            return _table_of_text(path, text, separator, quote, has_header=has_header)
        rows = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        header = rows.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        raise unreadable(path, error) from None
    rows = rows.rename({name: str(index) for index, name in enumerate(header)})
    rows = rows.with_row_index("line", offset=1).with_columns(surplus=None)
    return Table(path, header, [], lambda _: rows, unit="row")


def _decoded(path: Path, encoding: str | None) -> str:
    """Return the text of a file, with line feeds if its line ends are carriage returns."""
    content = path.read_bytes()
    if content.startswith(b"\x1f\x8b"):
        content = gzip.decompress(content)
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode(encoding or ("utf-16" if is_wide else "utf-8"))
    except LookupError:
        raise ValueError(
            f"encoding must be one that Python knows, such as latin-1, got {encoding!r}"
        ) from None
    except UnicodeDecodeError as error:
        raise _wrong_encoding(path, content.count(b"\n", 0, error.start) + 1, encoding) from None
    text = text.removeprefix("\ufeff")
    if "\0" in text[:_HEAD].lstrip().partition("\n")[0]:
        raise _wrong_encoding(path, 1, encoding)
    return text if "\n" in text else text.replace("\r", "\n")


def _table_of_text(
    path: Path, text: str, separator: str | None, quote: str | None, *, has_header: bool
) -> Table:
    """Open separated text."""
    if separator is None:
        line = re.sub('"[^"]*"', "", text[:_HEAD].lstrip().partition("\n")[0])
        separator = max(_SEPARATORS, key=line.count)
    separator = "\t" if separator in ("tab", "\\t") else separator
    if len(separator.encode()) != 1:
        raise ValueError(f"separator must be one character or 'tab', got {separator!r}")
    is_quoted = quote != "none" and '"' in text
    if is_quoted:
        text = _with_simple_quotes(path, text, separator, quote)
    head = io.StringIO(text[:_HEAD], newline="\n")
    lines = csv.reader(
        head,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
    )
    try:
        first = [value.strip() for value in next(filter(any, lines), [])]
    except csv.Error as error:
        raise unreadable(path, error) from None
    if not any(first):
        raise ValueError(f"{path} is empty")
    content, above = text.encode(), lines.line_num - 1 + has_header
    indices = [*map(str, range(len(first)))]

    def scan(numeric: Collection[str]) -> pl.LazyFrame:
        schema = dict.fromkeys([*indices, "surplus"], pl.String())
        return pl.scan_csv(
            content,
            separator=separator,
            quote_char='"' if is_quoted else None,
            has_header=False,
            schema={**schema, **dict.fromkeys(numeric, pl.Float64())},
            ignore_errors=bool(numeric),
            missing_columns="insert",
            truncate_ragged_lines=True,
            row_index_name="line",
            row_index_offset=1,
        ).slice(above)

    header = first if has_header else [str(index + 1) for index in range(len(first))]
    return Table(path, header, first, scan, has_header)


def _with_simple_quotes(path: Path, text: str, separator: str, quote: str | None) -> str:
    """Return text in which Polars finds the rows of ``csv.reader``.

    Polars reads quoted values that start and end beside separators, on one line. Other text is
    written again by the standard library, with line breaks in values replaced by blanks, and as
    many blank lines after the row.
    """
    comma = re.escape(separator)
    simple = rf'(?<![^\n{comma}])"(?:[^"\n]|"")*"(?=[\r\n{comma}]|$)'
    if '"' not in re.sub(simple, "", text):
        return text
    lines = [line + "\n" for line in text.split("\n")]
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
                        "below, but these lines look like rows: remove the quotes, or, for "
                        "interactions, pass --quote none (ordinary characters) or --quote double "
                        "(line breaks)"
                    )
                row = [" ".join(value.splitlines()) for value in row]
            writer.writerow(row)
            written.write("\n" * (len(own) - 1))
            before = reader.line_num
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {before + 1}: broken quotes ({error}): remove them, or, for "
            "interactions, pass --quote none"
        ) from None
    return written.getvalue()


def _wrong_encoding(path: Path, line: int, encoding: str | None) -> ValueError:
    """Return an error for text in another encoding, or a file that is not text."""
    return ValueError(
        f"cannot read {path}: line {line} is not {encoding or 'UTF-8'}: convert the file to UTF-8 "
        "text or Parquet, or, for interactions, pass --encoding, such as latin-1"
    )


def check_widths(table: Table, rows: pl.DataFrame) -> None:
    """Raise ``ValueError`` if a row has more values than the first line."""
    if (wide := rows.filter(pl.col("surplus").is_not_null())).height:
        line = f"{table.path}, {table.unit} {wide['line'][0]}"
        raise ValueError(f"{line}: there are more values than in the first line")


def find_columns(
    where: object,
    header: Sequence[str],
    names: Mapping[str, Sequence[Collection[str]]],
    given: Mapping[str, str | None],
    *,
    required: Collection[str] = (),
    advice: str = "",
) -> dict[str, str]:
    """Return the name of each kind of column: the given name, or one that is usual.

    Names are compared by :func:`plain_name`. If two columns match equally well, the error names
    both.

    Args:
        where: Name of the file in messages.
        header: Names of the columns.
        names: Usual names of each kind. The first set with a name in the header is used.
        given: Names by kind. ``None`` if a name is not given.
        required: Kinds that must be found. Default: none.
        advice: Further advice in the error for a missing column.

    Raises:
        ValueError: if a name is missing, ambiguous, or given twice.

    Example:
        >>> usual = {"user": [{"user", "userid"}], "item": [{"itemid"}, {"movieid"}]}
        >>> find_columns("a.csv", ["userId", "movieId"], usual, {})
        {'user': 'userId', 'item': 'movieId'}
    """
    plain = {name: plain_name(name) for name in header if name not in given.values()}
    columns: dict[str, str] = {}
    for kind, usual in names.items():
        name = given.get(kind)
        matches = ([it for it in plain if plain[it] in one] for one in usual)
        fitting = next(filter(None, matches), []) if name is None else [name] * (name in header)
        option = f"--{kind}-column"
        if len(fitting) > 1:
            raise ValueError(
                f"{where} has {len(fitting)} columns that look like {kind}s, "
                f"{', '.join(fitting)}: name the right one with {option}"
            )
        if not fitting and (name is not None or kind in required):
            lacking = f"that looks like {kind}s" if name is None else repr(name)
            raise ValueError(
                f"{where} has no column {lacking}; it has {listed(header, 12)}: name the right one "
                f"with {option}{advice}"
            )
        for found in fitting:
            if found in columns.values():
                raise ValueError(f"{where}: column {found!r} is used twice ({option})")
            if header.count(found) > 1:
                raise ValueError(f"{where} has {header.count(found)} columns called {found!r}")
            columns[kind] = found
            plain.pop(found, None)
    return columns


def each(words: str) -> list[set[str]]:
    """Return a set for each word, for :func:`find_columns`."""
    return [{word} for word in words.split()]


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
    try:
        if not dtype.is_nested() and dtype not in (pl.Duration, pl.Time, pl.Object):
            return column.cast(pl.String).str.strip_chars()
    except pl.exceptions.ComputeError:  # bytes that are not UTF-8
        pass
    raise ValueError(f"{column.name} has the type {dtype}: use numbers or text")


def whole_numbers(text: pl.Series) -> pl.Series | None:
    """Convert text to Int64 if all values are whole numbers such as 7 or 7.0, else ``None``.

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


def class_names(column: pl.Series, unknown: Sequence[str]) -> pl.Series:
    """Convert labels, domains or file names to text in composed form (NFC); empty if missing.

    If all known values are whole numbers, 7 and 7.0 are equal.

    Args:
        column: Values of any type.
        unknown: Text that means unknown. It is kept.

    Raises:
        ValueError: as for :func:`plain_values`.
    """
    text = plain_values(column).cast(pl.String).fill_null("").str.normalize("NFC")
    known = text.filter(~text.is_in(unknown))
    return text if whole_numbers(known) is None else text.str.replace(r"\.0+$", "")
