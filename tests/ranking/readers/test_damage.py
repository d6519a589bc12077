"""Whatever a file holds, a reader returns clean columns or raises one ValueError that names it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ranking.readers.tables import read_table

from bayescl_lab.ranking.readers.formats import read_lightgcn, read_ml_1m, read_ml_100k

ALL = {"user": "u", "item": "i", "rating": "r", "timestamp": "t"}


def lightgcn(path: Path) -> pl.DataFrame:
    (path.parent / "test.txt").write_text("0 1\n")
    return read_lightgcn(path.parent, "x").train


FORMATS = {
    "a.csv": (lambda path: read_table(path, ALL), b'u,i,r,t\nann,"x, y",4,1\nbob,z,5,2020-01-01\n'),
    "b.csv": (
        lambda path: read_table(path, ALL, skip_bad_rows=True, encoding="latin-1"),
        b"u,i,r,t\nann,x,4,1\nbob,z,5,2020-01-01\n",
    ),
    "a.parquet": (lambda path: read_table(path, ALL), b"PAR1"),
    "u.data": (lambda path: read_ml_100k(path.parent, "x").train, b"1\t2\t3\t4\n5\t6\t7\t8\n"),
    "ratings.dat": (lambda path: read_ml_1m(path.parent, "x").train, b"1::2::3::4\n5::6::7::8\n"),
    "train.txt": (lightgcn, b"0 1 2\n1 2 3\n"),
    "x.inter": (
        lambda path: read_table(path, {"user": "u", "item": "i"}),
        b"u:token\ti:token\na\tx\nb\ty\n",
    ),
}
PIECES = [
    b"\n",
    b"\r\n",
    b",",
    b"\t",
    b"::",
    b'"',
    b" ",
    b"-",
    b"\x00",
    b"\xff",
    "é".encode(),
    b"nan",
]


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A good file with up to three places cut out or filled with something else."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(content)))
        end = draw(st.integers(begin, min(begin + 4, len(content))))
        filling = draw(st.one_of(st.sampled_from([b"", *PIECES]), st.binary(max_size=3)))
        content = content[:begin] + filling + content[end:]
    return content


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_damage_is_reported_or_harmless(name, data, tmp_path_factory):
    read, good = FORMATS[name]
    path = tmp_path_factory.mktemp("damaged") / name
    path.write_bytes(data.draw(damaged(good)))
    try:
        frame = read(path)
    except ValueError as error:
        assert str(path) in str(error)  # noqa: PT017
        return
    assert frame.height > 0
    for column in frame:
        assert column.null_count() == 0
        assert column.dtype in (pl.Int64, pl.Categorical, pl.Float64)
        if column.dtype == pl.Float64:
            assert column.is_finite().all()
