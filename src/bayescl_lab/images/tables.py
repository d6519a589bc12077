"""Images in tables, as Hugging Face's ``datasets`` saves them: unpacked once to files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bayescl_lab._files import staged_folder
from bayescl_lab.images.folder import TEST_FOLDERS, TRAIN_FOLDER, UNLABELED_FOLDER
from bayescl_lab.images.pixel_files import cached

_SUFFIXES = {b"\x89P": ".png", b"\xff\xd8": ".jpg", b"GI": ".gif", b"BM": ".bmp", b"RI": ".webp"}
"""By the first two bytes of an image."""


def unpacked_tables(folder: Path) -> Path | None:
    """A folder of image files with the images of tables; None if a folder holds no such tables.

    Tables are ``*.parquet`` files, as in a snapshot of the hub, or ``*.arrow`` files, as
    ``save_to_disk`` writes them, with a column ``image`` or ``img`` of encoded images, and perhaps
    ``label`` or ``fine_label``. Parts are told by the names ``train`` and ``test`` (or
    ``validation``) of files or folders. The files are written to the cache folder once.
    """
    patterns = ("*.parquet", "*/*.parquet", "*.arrow", "*/*.arrow")
    tables = sorted(table for pattern in patterns for table in folder.glob(pattern))
    parts = [(_part(table.relative_to(folder)), table) for table in tables]
    # Without a test part, a validation part takes its place; other parts are of no use.
    held_out = next((name for name in TEST_FOLDERS if name in dict(parts)), None)
    parts = [(part, table) for part, table in parts if part in (TRAIN_FOLDER, held_out)]
    if not parts:
        return None
    target = cached(folder, [table for _, table in parts], "files")
    if not target.is_dir():
        with staged_folder(target) as staged:
            for number, (part, table) in enumerate(parts):
                for row, (label, content) in enumerate(_images(table)):
                    suffix = _SUFFIXES.get(content[:2], ".tif")
                    file = staged / part / label / f"{number:05}-{row:07}{suffix}"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)
    return target


def _part(table: Path) -> str:
    """The part that a table belongs to, by its first folder or the beginning of its name."""
    words = [word for name in table.parts for word in re.split(r"[^a-z]+", name.lower())]
    return next((word for word in words if word in (TRAIN_FOLDER, *TEST_FOLDERS)), TRAIN_FOLDER)


def _images(table: Path) -> Iterator[tuple[str, bytes]]:
    """The class, or ``unlabeled``, and the encoded image of each row."""
    import polars as pl

    try:
        frame = pl.read_parquet(table) if table.suffix == ".parquet" else pl.read_ipc_stream(table)
        image = next((name for name in ("image", "img") if name in frame.columns), None)
        if image is None or not isinstance(frame[image].dtype, pl.Struct):
            raise ValueError(f"{table} has no column image of encoded images")
        content = frame[image].struct.field("bytes")
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"cannot read {table}: {str(error).partition(chr(10))[0]}") from None
    if content.null_count():
        raise ValueError(f"{table} has paths of images instead of their content")
    column = next((name for name in ("label", "fine_label") if name in frame.columns), None)
    labels = frame[column] if column else [None] * len(frame)
    names = _class_names(table, column) if column else []
    pairs = zip(labels, content, strict=True)
    return ((_class_name(label, names), image) for label, image in pairs)


def _class_name(label: Any, names: list[str]) -> str:
    """The name of a class as that of a folder: known by its number, or the label itself."""
    if label is None or label == -1:
        return UNLABELED_FOLDER
    word = names[label] if isinstance(label, int) and 0 <= label < len(names) else str(label)
    return re.sub(r"[^\w. -]", "_", word).strip(". ") or "_"


def _class_names(table: Path, column: str) -> list[str]:
    """The names of the classes, from the notes beside a table or within it."""
    import polars as pl

    try:
        if table.suffix == ".parquet":
            notes = json.loads(pl.read_parquet_metadata(table)["huggingface"])["info"]
        else:
            notes = json.loads(table.with_name("dataset_info.json").read_text(encoding="utf-8"))
        return [str(name) for name in notes["features"][column]["names"]]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return []
