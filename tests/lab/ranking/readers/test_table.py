"""Tables of users' own: separators, quotes, ids of any type, dates, damage."""

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import read_interactions_of, read_tables

NAMES = {"user": "u", "item": "i"}


def read_table(
    path: Path, columns: Mapping[str, str] | None = None, **options: Any
) -> pl.DataFrame:
    """The columns of one table, guessed or with the given names."""
    named = {f"{kind}_column": name for kind, name in (columns or {}).items()}
    return read_interactions_of(path, RankingData(**named, **options))[0]


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=8))
def test_whatever_the_standard_library_writes_is_read(rows, tmp_path_factory):
    rows = [(f"u{user}", note, f"i{item}") for user, note, item in rows]
    output = io.StringIO()
    csv.writer(output).writerows([("who", "note", "what"), *rows])
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(output.getvalue().encode())
    expected = [(user.strip(), item.strip()) for user, _, item in rows]
    assert read_table(path, {"user": "who", "item": "what"}, separator=",").rows() == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("u,i,n\na,x,1\nb\n", ", line 3: there is no item; --skip-bad-rows"),
        ("u,i,n\na,x,1\n\n\nb,y,1,2\n", ", line 5: there are more values than in the first line"),
        ('u,n,i\na,"1\n2",x\nb,1, \n', ", line 4: there is no item"),
        ("u,i\n,x\n", ", line 2: there is no user"),
        ('u,i\na,x\nb,"y\n', ", line 3: broken quotes (unexpected end of data): remove"),
        (
            'u,i\na,x\n"b"b,y\n',
            ", line 3: broken quotes (',' expected after '\"'): remove them",
        ),
        (b"u,i\na,x\nb,\xe9\n", ": line 3 is not UTF-8: convert"),
        (b"\xffu,i\n", ": line 1 is not UTF-8: convert"),
    ],
)
def test_damage_is_named_with_its_line(write, content, message):
    path = write("a.csv", content)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        read_table(path, NAMES)


MESSY = """u,i,r
ann,x,4
bob,,5
,y,1
cid,z,good

dan
eve,w,3,what is this
fay,v,2
"""


def test_bad_rows_are_left_out_and_counted_when_asked(write, tmp_path):
    def read(path, **options):
        columns = RankingData(user_column="u", item_column="i", **options)
        return read_tables(path, None, columns, name="x")

    path = write("a.csv", MESSY)
    with pytest.raises(ValueError, match="lines 3, 7: there is no item; --skip-bad-rows"):
        read(path)
    raw = read(path, skip_bad_rows=True)
    assert raw.train.rows() == [("ann", "x"), ("cid", "z"), ("fay", "v")]
    assert raw.report == {"rows with missing or unparsable values left out": 4}
    rated = read(path, skip_bad_rows=True, rating_column="r")
    assert rated.train.rows() == [("ann", "x", 4.0), ("fay", "v", 2.0)]
    parquet = tmp_path / "a.parquet"
    pl.DataFrame({"u": [1.0, float("nan"), 2.0], "i": ["x", "y", None]}).write_parquet(parquet)
    with pytest.raises(
        ValueError, match=r"row 2: user must be .*, got nan; --skip-bad-rows leaves"
    ):
        read(parquet)
    assert read(parquet, skip_bad_rows=True).train.rows() == [(1, "x")]
    with pytest.raises(ValueError, match="has no interactions: all 1 rows lack a value or have an"):
        read(write("b.csv", "u,i\na,\n"), skip_bad_rows=True)


def test_a_table_without_a_header_has_numbers_for_names(write):
    path = write("a.csv", "3,7,5,100\n3,8,1,200\n\n4,7,2,300\n")
    with pytest.raises(ValueError, match=r"looks like users; it has 3, 7, .* or add --no-header"):
        read_table(path)
    assert read_table(path, no_header=True, split="last")["timestamp"].to_list() == [100, 200, 300]
    turned = read_table(path, {"user": "2", "item": "1"}, no_header=True)
    assert turned.rows() == [("7", "3"), ("8", "3"), ("7", "4")]
    with pytest.raises(ValueError, match="no column '5'; it has 1, 2, 3, 4"):
        read_table(path, {"user": "5"}, no_header=True)
