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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
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
_AT_ONCE, _HEAD = 1 << 20, 1 << 13
_LEAST_BOMB = 1 << 24
_MOST_TIMES = 200
"""No table of interactions compresses to a two-hundredth: a file that does, and unpacks to more
than the least bomb, is meant to fill a disk. Sizes that an archive declares are not believed."""

# A RuntimeError means that a password is needed, or the compression is not supported.
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
    if path.name.lower().endswith(".tar.gz"):
        raise ValueError(f"{path} is an archive: unpack it and name the table in it")
    kind, shown, plain, suffix = path.suffix.lower(), str(path), path, table_suffix(path)
    with ExitStack() as stack:
        try:
            source: Any
            if kind == ZIP:
                archive = stack.enter_context(zipfile.ZipFile(path))
                member = _only_table(path, archive.namelist())
                shown, suffix = f"{path} ({member})", PurePosixPath(member).suffix.lower()
                source = stack.enter_context(archive.open(member))
            else:
                opener: Any = gzip.open if kind == GZIP else open
                source = stack.enter_context(opener(path, "rb"))
            encoding = None if suffix in PARQUET else encoding or _to_convert(source.peek(_HEAD))
            if kind in PACKED or encoding:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bayescl-"))
                plain = Path(folder, f"table{suffix}")
                most = max(_LEAST_BOMB, _MOST_TIMES * path.stat().st_size)
                reader: IO[Any] = io.TextIOWrapper(source, encoding) if encoding else source
                with plain.open("wb") as file:
                    while file.tell() < (first or most) and (chunk := reader.read(_AT_ONCE)):
                        file.write(chunk.encode() if isinstance(chunk, str) else chunk)
                    if file.tell() >= most:
                        raise ValueError(
                            f"{path} unpacks to more than {_MOST_TIMES} times its size: unpack it "
                            "yourself if it is a table"
                        )
        except LookupError:
            raise ValueError(
                f"encoding must be one that Python knows, such as latin-1, got {encoding!r}"
            ) from None
        except UnicodeError as error:
            raise ValueError(f"{path} is not {encoding} text: {error}") from None
        except _DAMAGE as error:
            reason = str(error).partition("\n")[0]
            raise ValueError(f"cannot unpack {path}: {reason}") from None
        try:
            yield plain
        except ValueError as error:
            raise ValueError(str(error).replace(str(plain), shown)) from None


def _to_convert(head: bytes) -> str | None:
    """The encoding of a text that has to be converted, by its first bytes; None for most."""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    has_old_line_ends = b"\r" in head and b"\n" not in head
    return "utf-8" if has_old_line_ends else None


def _only_table(path: Path, names: Sequence[str]) -> str:
    """The one member of an archive that is a table, without the hidden files that systems add."""
    for suffixes in (TABLES, _PERHAPS_TABLES):
        tables = [
            name
            for name in names
            if name.lower().endswith(suffixes)
            and not any(part.startswith((".", "__")) for part in PurePosixPath(name).parts)
        ]
        if len(tables) > 1:
            raise ValueError(
                f"{path} holds {len(tables)} tables ({', '.join(tables[:5])}): unpack it and name "
                "one of them"
            )
        if tables:
            return tables[0]
    raise ValueError(f"{path} holds no table: none of its files ends in {', '.join(TABLES)}")
