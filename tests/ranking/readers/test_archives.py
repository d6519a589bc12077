"""Compressed tables: read as if they were not, or refused by their own name."""

from __future__ import annotations

import gzip
import re
import tempfile
from functools import partial
from pathlib import Path

import pytest
from tests.ranking.readers.tables import parquet, read_table, zipped

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers import archives
from bayescl_lab.ranking.readers.archives import unpacked
from bayescl_lab.ranking.readers.table import first_rows

gzipped = partial(gzip.compress, mtime=0)  # the same bytes in every test process

TEXT = b"user_id,item_id\nann,x\nbob,y\n"
ROWS = [("ann", "x"), ("bob", "y")]
PARQUET = parquet(ROWS, ["user_id", "item_id"])


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    """The folder for temporary files, to see that nothing stays in it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv.gz", gzipped(TEXT)),
        ("a.CSV.GZ", gzipped(TEXT)),
        ("a.gz", gzipped(TEXT)),
        ("a.zip", zipped({"in/a.csv": TEXT, "in/": b"", "__MACOSX/._a.csv": b"", "b.md": b"#"})),
        ("a.zip", zipped({"a.csv": TEXT, "README.txt": b"about"})),
        ("a.zip", zipped({"a.parquet": PARQUET})),
        ("a.parquet.gz", gzipped(PARQUET)),
    ],
)
def test_a_compressed_table_is_read_like_a_plain_one(write, temporary, name, content):
    path = write(name, content)
    assert read_table(path).rows() == ROWS
    assert first_rows(path, RankingData()) == (["user_id", "item_id"], [])
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv.gz", TEXT, "cannot unpack {path}: Not a gzipped file"),
        ("a.csv.gz", gzipped(TEXT * 99)[:-20], "cannot unpack {path}: "),
        ("a.csv.gz", gzipped(b""), "{path} is empty"),
        ("a.csv.gz", gzipped(b"user,item\na\n"), "{path}, line 2: there is no item"),
        ("a.csv.gz", gzipped(b"\xffuser"), "{path}: line 1 is not UTF-8: name"),
        ("a.tar.gz", gzipped(TEXT), "{path} is an archive: unpack it"),
        ("a.zip", b"PK\x03\x04nonsense", "cannot unpack {path}: "),
        ("a.zip", zipped({"b.md": b"#"}), "{path} holds no table"),
        ("a.zip", zipped({"a.csv": TEXT, "b.csv": TEXT}), "{path} holds 2 tables (a.csv, b.csv)"),
        ("a.zip", zipped({"../../a.csv": b"user,item\n"}), "{path} holds no table"),
        (
            "a.zip",
            zipped({"a.csv": b"user,item\nx,\n"}),
            "{path} (a.csv), line 2: there is no item",
        ),
        ("a.parquet.gz", gzipped(TEXT), "cannot read {path}: "),
    ],
)
def test_damage_is_named_with_the_compressed_file(write, temporary, name, content, message):
    path = write(name, content)
    with pytest.raises(ValueError, match=re.escape(message.format(path=path))):
        read_table(path)
    assert list(temporary.iterdir()) == []


def test_what_unpacks_to_absurdly_much_is_refused_and_leaves_nothing(write, temporary, monkeypatch):
    monkeypatch.setattr(archives, "_LEAST_BOMB", 1 << 20)
    bomb = bytes(1 << 23)
    lying = bytearray(zipped({"a.csv": bomb}))
    for signature, size in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):  # declares ten bytes
        start = lying.index(signature) + size
        lying[start : start + 4] = (10).to_bytes(4, "little")
    for name, content, message in (
        ("a.csv.gz", gzipped(bomb), "unpacks to more than 200 times its size"),
        ("a.zip", zipped({"a.csv": bomb}), "unpacks to more than 200 times its size"),
        ("a.zip", bytes(lying), "cannot unpack .*: Bad CRC-32"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(write(name, content))
    assert list(temporary.iterdir()) == []


def test_a_header_needs_only_the_beginning(write):
    path = write("a.csv.gz", gzipped(TEXT + b"eve,z\n" * 1_000_000))
    with unpacked(path, first=1 << 20) as plain:
        assert plain.stat().st_size == 1 << 20
    assert first_rows(path, RankingData()) == (["user_id", "item_id"], [])


def test_text_in_another_encoding_is_converted_and_leaves_nothing(write, temporary):
    text = "user_id,item_id\nann,café\nbob,x\n"
    for encoding in ("latin-1", "cp1252", "utf-16", "utf-8-sig"):
        content = text.encode(encoding)
        for path in (write("a.csv", content), write("a.csv.gz", gzipped(content))):
            assert read_table(path, encoding=encoding).rows() == [("ann", "café"), ("bob", "x")]
    path = write("a.csv", text.encode("latin-1"))
    for encoding, message in (
        (None, f"{path}: line 2 is not UTF-8: name the encoding, such as latin-1, with"),
        ("ascii", f"{path} is not ascii text: "),
        ("klingon", "encoding must be one that Python knows, such as latin-1, got 'klingon'"),
        ("base64", "encoding must be one that Python knows, such as latin-1, got 'base64'"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            read_table(path, encoding=encoding)
    assert list(temporary.iterdir()) == []
