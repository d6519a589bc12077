"""Tables that Polars cannot read as they are: compressed ones, and text that is not UTF-8.

``.gz`` and ``.zip`` with exactly one table are unpacked, and text in another encoding or with line
ends of CR alone is converted, into a temporary file, which is removed after reading.
"""

from __future__ import annotations

import codecs
import gzip
import io
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

ZIP = ".zip"
GZIP = ".gz"
PACKED = (GZIP, ZIP)
"""Suffixes of compressed tables."""
PARQUET = (".parquet", ".pq")
JSONL = (".jsonl", ".ndjson")
TABLES = (".csv", ".tsv", *JSONL, *PARQUET)
"""Suffixes of what is surely a table."""
INTER = ".inter"
"""RecBole's tables: separated by tabs, never quoted, with a type behind each column's name,
such as ``user_id:token``."""

_PERHAPS_TABLES = (".txt", ".data", ".dat")
_AT_ONCE = 1 << 20
_LEAST_BOMB = 1 << 24
_MOST_TIMES = 200
"""No table of interactions compresses to a two-hundredth: a file that does, and unpacks to more
than the least bomb, is meant to fill a disk. Sizes that an archive declares are not believed."""

# A RuntimeError says that a password is needed, or a compression that nobody uses.
_DAMAGE = (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error)


def table_suffix(path: Path) -> str:
    """The suffix of a table's name, without that of the compression: .csv of a.csv.gz."""
    plain = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return plain.suffix.lower()


@contextmanager
def unpacked(
    path: Path, *, encoding: str | None = None, first: int | None = None
) -> Iterator[Path]:
    """A table as a plain file within the block: Parquet or text in UTF-8.

    That is the file itself if nothing has to be done. A ``ValueError`` from the block that names
    the plain file is changed to name the original. At most about ``first`` bytes are unpacked.

    Raises:
        ValueError: if the file is missing or damaged, needs a password, is an archive that does not
            hold exactly one table, unpacks to an absurd size, or is text in another encoding.
    """
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    if path.suffixes[-2:] == [".tar", GZIP]:
        raise ValueError(f"{path} is an archive: unpack it and name the table in it")
    with tempfile.TemporaryDirectory(prefix="bayescl-") as folder:
        shown, plain = str(path), Path(folder, "table" + table_suffix(path))
        try:
            if path.suffix.lower() == ZIP:
                with zipfile.ZipFile(path) as archive:
                    member = _only_table(path, archive)
                    suffix = PurePosixPath(member.filename).suffix.lower()
                    shown, plain = f"{path} ({member.filename})", Path(folder, f"table{suffix}")
                    with archive.open(member) as source:
                        _copy(path, source, plain, first, encoding)
            elif path.suffix.lower() == GZIP:
                with gzip.open(path) as source:
                    _copy(path, source, plain, first, encoding)
            else:
                with path.open("rb") as source:
                    plain = _copy(path, source, plain, first, encoding, packed=False)
        except LookupError:
            raise ValueError(
                f"encoding must be one that Python knows, such as latin-1, got {encoding!r}"
            ) from None
        except UnicodeError as error:
            raise ValueError(f"{path} is not {encoding or 'UTF'} text: {error}") from None
        except _DAMAGE as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"cannot unpack {path}: {reason}") from None
        try:
            yield plain
        except ValueError as error:
            raise ValueError(str(error).replace(str(plain), shown)) from None


def _only_table(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The one member of an archive that is a table, without the hidden files that systems add."""
    members = [
        (member, PurePosixPath(member.filename))
        for member in archive.infolist()
        if not member.is_dir()
    ]
    for suffixes in (TABLES, _PERHAPS_TABLES):
        tables = [
            member
            for member, place in members
            if place.suffix.lower() in suffixes
            and not any(part.startswith((".", "__")) for part in place.parts)
        ]
        if len(tables) > 1:
            names = ", ".join(table.filename for table in tables[:5])
            raise ValueError(
                f"{path} holds {len(tables)} tables ({names}): unpack it and name one of them"
            )
        if tables:
            return tables[0]
    raise ValueError(f"{path} holds no table: none of its files ends in {', '.join(TABLES)}")


def _copy(
    path: Path,
    source: Any,
    target: Path,
    first: int | None,
    encoding: str | None,
    *,
    packed: bool = True,
) -> Path:
    """Copy a source to a file, up to about ``first`` bytes, and return what can be read."""
    head, is_text = source.peek(1 << 13)[: 1 << 13], target.suffix not in PARQUET
    if is_text and encoding is None and head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        encoding = "utf-16"
    if is_text and encoding is None and b"\r" in head and b"\n" not in head:
        encoding = "utf-8"  # to change the line ends
    encoding = encoding if is_text else None
    if encoding is None and not packed:
        return path
    most = max(_LEAST_BOMB, _MOST_TIMES * path.stat().st_size)
    reader: IO[Any] = io.TextIOWrapper(source, encoding) if encoding else source
    done = 0
    with reader, target.open("wb") as file:
        while (first is None or done < first) and (chunk := reader.read(_AT_ONCE)):
            chunk = chunk.encode() if isinstance(chunk, str) else chunk
            done += len(chunk)
            if done > most:
                raise ValueError(
                    f"{path} unpacks to more than {_MOST_TIMES} times its size: "
                    "unpack it yourself if it is a table"
                )
            file.write(chunk)
    return target
