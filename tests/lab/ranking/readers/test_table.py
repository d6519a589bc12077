"""Tables of users' own: separators, quotes, ids of any type, dates, damage."""

import csv
import gzip
import io
import re
from datetime import date, datetime, time, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import common_ids, read_tables
from tests.lab.ranking.readers.tables import read_table

NAMES = {"user": "u", "item": "i"}


def test_the_separator_is_found_in_the_header_unless_given(write):
    for separator in ("\t", ",", ";", "|"):
        text = "u,i,n\nann,x,1\nbob,y,2\n".replace(",", separator)
        assert read_table(write("a.csv", text), NAMES).rows() == [("ann", "x"), ("bob", "y")]
    path = write("b.csv", "u\ti\ta,b,c,d\nann\tx\t1\n")
    for spelling in ("tab", r"\t", "\t"):
        assert read_table(path, NAMES, separator=spelling).rows() == [("ann", "x")]


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
        ("", " is empty"),
        ("u,i\n", " has no interactions"),
        ("u,i,n\na,x,1\nb\n", ", line 3: there is no item; --skip-bad-rows"),
        ("u,i,n\na,x,1\n\n\nb,y,1,2\n", ", line 5: there are more values than in the first line"),
        ('u,n,i\na,"1\n2",x\nb,1, \n', ", line 4: there is no item"),
        ("u,i\n,x\n", ", line 2: there is no user"),
        ('u,i\na,x\nb,"y\n', ", line 3: broken quotes (unexpected end of data): pass --quote none"),
        (
            'u,i\na,x\n"b"b,y\n',
            ", line 3: broken quotes (',' expected after '\"'): pass --quote none",
        ),
        (b"u,i\na,x\nb,\xe9\n", ": line 3 is not UTF-8: name"),
        (b"\xffu,i\n", ": line 1 is not UTF-8: name"),
        ("u,i\na,x\n".encode("utf-16-le"), ": line 1 is not UTF-8: name the encoding"),
    ],
)
def test_damage_is_named_with_its_line(write, content, message):
    path = write("a.csv", content)
    with pytest.raises(ValueError, match=re.escape(f"{path}{message}")):
        read_table(path, NAMES)


def test_text_may_be_compressed_or_in_another_encoding(write):
    text, rows = "u,i\nann,café\nbob,x\n", [("ann", "café"), ("bob", "x")]
    for encoding in ("latin-1", None):
        content = gzip.compress(text.encode(encoding or "utf-8"))
        assert read_table(write("a.csv.gz", content), NAMES, encoding=encoding).rows() == rows
    for encoding, message in (
        ("ascii", "b.csv is not ascii text: "),
        ("klingon", "encoding must be one that Python knows, such as latin-1, got 'klingon'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(write("b.csv", text), NAMES, encoding=encoding)


def test_values_must_be_numbers_only_in_columns_that_are_read(write, tmp_path):
    path = write("a.csv", "u,i,r,t\na,x,4,1\nb,y,good,2\nc,z,3,soon\n")
    assert read_table(path, NAMES).rows() == [("a", "x"), ("b", "y"), ("c", "z")]
    with pytest.raises(ValueError, match="line 3: rating must be a finite number, got 'good'"):
        read_table(path, {**NAMES, "rating": "r"})
    with pytest.raises(ValueError, match="line 4: timestamp must be a number or a date"):
        read_table(path, {**NAMES, "timestamp": "t"})
    with pytest.raises(ValueError, match="there is no file"):
        read_table(tmp_path / "nowhere.csv", NAMES)


@pytest.mark.parametrize(
    ("moments", "seconds"),
    [
        ([datetime(2024, 5, 31, 12, tzinfo=timezone.utc), None], datetime(2024, 5, 31, 12)),
        ([date(1970, 1, 3), date(1970, 1, 1)], datetime(1970, 1, 3)),
        ([time(12), time(13)], None),
        ([5, 6], 5),
        ([2**60 + 1, 6], 2**60 + 1),
    ],
)
def test_moments_in_parquet_are_in_utc_or_refused(tmp_path, moments, seconds):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"u": [1, 2], "i": [1, 2], "t": moments})
    if frame["t"].dtype == pl.Datetime:
        frame = frame.with_columns(pl.col("t").dt.convert_time_zone("Asia/Tokyo"))
    frame.drop_nulls().write_parquet(path)
    columns = {**NAMES, "timestamp": "t"}
    if seconds is None:
        with pytest.raises(ValueError, match="timestamp has the type Time: use numbers or text"):
            read_table(path, columns)
    else:
        assert read_table(path, columns)["timestamp"][0] == seconds


def test_ids_are_numbers_only_where_all_are_written_so(write):
    def ids(*values: str) -> list:
        return common_ids([pl.Series(values)])[0].to_list()

    assert ids("3", "-1", "0") == [3, -1, 0]
    assert ids("3", "03") == ["3", "03"]
    assert ids("3", "4.0") == [3, 4]
    assert ids("3.0", "4.5") == ["3.0", "4.5"]
    assert ids("3", "x") == ["3", "x"]
    assert ids("3", "9" * 30) == ["3", "9" * 30]


def test_parquet_reads_any_type_of_id_also_beside_text(write, tmp_path):
    path = tmp_path / "a.parquet"
    frame = pl.DataFrame({"u": pl.Series(["a", "b"], dtype=pl.Categorical), "i": [1.0, 7.0]})
    frame.write_parquet(path)
    options = RankingData(user_column="u", item_column="i")
    raw = read_tables(write("a.csv", "u,i\n1,2\n"), path, options, name="mixed")
    assert raw.train.rows() == [("1", "2")]
    assert raw.test.rows() == [("a", 1), ("b", 7)]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, None], "row 2: there is no user"),
        ([1.5, float("nan")], "row 2: user must be a whole number or text, got nan"),
        ([b"a", b"\xff"], "a.parquet: user has the type Binary: use numbers or text"),
        ([[1], [2]], "a.parquet: user has the type List(Int64): use numbers or text"),
        ([2.0**53, 1.0], "user has the type Float64, which rounds whole numbers above"),
        (None, "cannot read "),
    ],
)
def test_damage_in_parquet_is_named_with_its_row(write, column, message):
    path = write("a.parquet", "u,i\n1,2\n")
    if column:
        pl.DataFrame({"u": column, "i": [1, 2]}, strict=False).write_parquet(path)
    with pytest.raises(ValueError, match=re.escape(message)):
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
    with pytest.raises(ValueError, match="no column '5' for the users; it has 1, 2, 3, 4"):
        read_table(path, {"user": "5"}, no_header=True)
