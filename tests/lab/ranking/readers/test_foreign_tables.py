"""Tables as other programs write them: every value is right, or the file is refused.

A case is a name, a file, options, and what must come out: the rows, or the words of a refusal.
"""

import bz2
import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.readers.table import common_ids, read_interactions_of

FIRST = datetime(2024, 1, 13, 9, 30)
USERS = [11, 11, 12, 12, 13, 13, 14, 15]
ITEMS = [5, 6, 5, 7, 6, 8, 5, 8]
RATINGS = [4.0, 3.5, 5.0, 1.0, 2.5, 4.0, 3.0, 4.5]
TIMES = [FIRST + timedelta(days=40 * row, seconds=7 * row) for row in range(8)]
DAYS = [moment.replace(hour=0, minute=0, second=0) for moment in TIMES]
EPOCHS = [int(moment.replace(tzinfo=timezone.utc).timestamp()) for moment in TIMES]
TITLES = ["Heroes", "Up, up", 'The "X" files', "a;b", "Ça ira", "", "x|y", "Été"]
HEADER = ["user", "item", "rating", "timestamp"]


def rows(
    users: Sequence[Any] = USERS,
    items: Sequence[Any] = ITEMS,
    ratings: Sequence[Any] = RATINGS,
    times: Sequence[Any] = EPOCHS,
) -> list[tuple[Any, ...]]:
    """Rows of a table."""
    return list(zip(users, items, ratings, times, strict=True))


def text(
    lines: Sequence[Sequence[Any]], header: Sequence[str] | None = HEADER, **dialect: Any
) -> str:
    """Separated text by the standard library."""
    dialect = {"lineterminator": "\n", **dialect}
    csv.writer(output := io.StringIO(), **dialect).writerows(
        [*([header] if header else []), *lines]
    )
    return output.getvalue()


def dated(form: str) -> str:
    """Separated text whose times have a form."""
    return text(rows(times=[f"{it:{form}}" for it in TIMES]))


def parquet(**columns: Any) -> bytes:
    """A Parquet file."""
    given = {"user": USERS, "item": ITEMS, "rating": RATINGS, "timestamp": EPOCHS, **columns}
    pl.DataFrame(given, strict=False).write_parquet(output := io.BytesIO())
    return output.getvalue()


def with_titles(*titles: str) -> list[tuple[Any, ...]]:
    """Rows with a title before the item."""
    titles = (*titles, *TITLES[len(titles) :])
    return list(zip(USERS, titles, ITEMS, RATINGS, EPOCHS, strict=True))


TITLED = ["user", "title", "item", "rating", "timestamp"]
PLAIN = text(rows())
IDS = [f"u{user}" for user in USERS]
EXPECTED = rows()


def _text() -> Iterator[tuple[Any, ...]]:
    """Separators, encodings, line ends, headers."""
    yield "plain", PLAIN
    yield "semicolons of a spreadsheet", text(rows(), delimiter=";")
    yield "tabs", text(rows(), delimiter="\t")
    yield "bars", text(rows(), delimiter="|")
    yield "blanks", text(rows(), delimiter=" "), {"separator": " "}
    for spelling in ("tab", r"\t", "\t"):
        few_tabs = text(rows(), ["user", "item", "rating", "timestamp,,,,"], delimiter="\t")
        columns = {"separator": spelling, "timestamp_column": "timestamp,,,,"}
        yield f"tabs, named {spelling!r}", few_tabs, columns
    yield "blanks without an option", text(rows(), delimiter=" "), "no column that looks like"
    yield "windows line ends", text(rows(), lineterminator="\r\n")
    yield "windows line ends written twice", text(rows(), lineterminator="\r\r\n")
    yield "old line ends", text(rows(), lineterminator="\r")
    yield "no last line end", PLAIN.rstrip("\n")
    yield "utf-8 with a mark", PLAIN.encode("utf-8-sig")
    yield "utf-8 with a mark, all quoted", text(rows(), quoting=csv.QUOTE_ALL).encode("utf-8-sig")
    yield "utf-16 of a spreadsheet", text(rows(), delimiter="\t").encode("utf-16")
    yield "utf-16 without a mark", PLAIN.encode("utf-16-le"), "is not UTF-8"
    yield "utf-16, named", PLAIN.encode("utf-16-be"), {"encoding": "utf-16-be"}
    yield "utf-32", PLAIN.encode("utf-32"), "UTF-8"
    yield "latin-1", text(with_titles("Ça"), TITLED).encode("latin-1"), "line 2 is not UTF-8"
    latin = text(with_titles("Ça"), TITLED).encode("latin-1")
    yield "latin-1, named", latin, {"encoding": "latin-1"}
    yield "latin-1, named ascii", latin, {"encoding": "ascii"}, "line 2 is not ascii: convert"
    unknown = "encoding must be one that Python knows, such as latin-1, got 'klingon'"
    yield "latin-1, named otherwise", latin, {"encoding": "klingon"}, unknown
    yield "latin-1, gzip.csv.gz", gzip.compress(latin), {"encoding": "latin-1"}
    yield "gzip", gzip.compress(PLAIN.encode())
    yield "gzip by its name.csv.gz", gzip.compress(PLAIN.encode())
    yield "blank lines", PLAIN.replace("\n", "\n\n")
    yield "blank first lines", "\n\n" + PLAIN
    yield "empty rows of a spreadsheet", PLAIN + ",,,\n,,,\n"
    yield "trailing separators", PLAIN.replace("\n", ",\n")
    yield "trailing separators of the rows", PLAIN.replace("\n", ",\n").replace(",\n", "\n", 1)
    yield "names of rows (R)", text([(1, *row) for row in rows()]), "more values than in the first"
    yield "names of rows with a name", text([(1, *row) for row in rows()], ["", *HEADER])
    yield "duplicate names", text(with_titles(), ["user", "user", *HEADER[1:]]), "2 columns"
    yield "blanks around values", text([[f" {it} " for it in row] for row in rows()])
    yield "blanks around names", text(rows(), [f" {name} " for name in HEADER])
    commas: Any = {"delimiter": ";", "quoting": csv.QUOTE_ALL}
    named = text(rows(), ["user, and, more, words", *HEADER[1:]], **commas)
    yield "separators in names", named, {"user_column": "user, and, more, words"}
    yield "capitals", text(rows(), ["USER_ID", "Item ID", "Rating", "TimeStamp"])
    yield "two files with headers", PLAIN + PLAIN, EXPECTED * 2
    yield "two files with marks", PLAIN.encode("utf-8-sig") * 2, EXPECTED * 2
    yield "a total", PLAIN + "Total,,27.5,\n", "there is no item"
    yield "a footer", PLAIN + "(8 rows affected)\n", "there is no item"
    yield "a note before the header", "Export of 2024-05-01\n" + PLAIN, "has no column"
    yield "a comment before the header", "# export,2024\n" + PLAIN, "has no column"
    yield "the separator before the header", "sep=,\n" + PLAIN, "has no column"
    yield "dashes below the header", PLAIN.replace("\n", "\n--,--,1,1\n", 1), "missing id"
    yield "no header", text(rows(), None), {"no_header": True}
    yield "a comment without header", "#a,b,c,d\n" + text(rows(), None), {"no_header": True}, "comm"
    yield "ragged", PLAIN.replace("\n", ",extra\n").replace(",extra\n", "\n", 1), "more values"
    yield "a zip archive", b"PK\x03\x04\x14\0\0\0\x08" + PLAIN.encode(), "convert the file to UTF-8"
    yield "bzip2", bz2.compress(PLAIN.encode()), "convert the file to UTF-8 text or Parquet"
    yield "json", '{"user": 1, "item": 2}\n', 'has no column that looks like users; it has {"user"'
    yield "html", "<!DOCTYPE html><table>", "no column that looks like users; it has <!DOCTYPE"
    yield "parquet.csv", parquet()
    yield "text.parquet", PLAIN, "cannot read"


def _quotes() -> Iterator[tuple[Any, ...]]:
    """Quoting styles, and quotes that are not closed."""
    quoted = text(with_titles(), TITLED)
    yield "minimal quotes", quoted
    yield "all quoted", text(with_titles(), TITLED, quoting=csv.QUOTE_ALL)
    yield "text quoted", text(with_titles(), TITLED, quoting=csv.QUOTE_NONNUMERIC)
    of_r: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONNUMERIC}
    yield "tabs, text quoted (R)", text(with_titles(), TITLED, **of_r)
    escaped: Any = {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL}
    yield "backslashes (Spark)", text(with_titles(), TITLED, **escaped), "line 4: broken quotes"
    line_break = text(with_titles("Great\n\nloved it"), TITLED)
    yield "line breaks", line_break
    yield "line breaks, windows", line_break.replace("\n", "\r\n")
    yield "line breaks, tabs", text(with_titles("Great\nloved it"), TITLED, delimiter="\t")
    last = ["user", "item", "rating", "timestamp", "title"]
    reviews = [(*row, "Great\nbut, well, old") for row in rows()]
    yield "line breaks at the end", text(reviews, last)
    like_rows = [(u, "a,b\n1,2,3,4,5", *rest) for u, _, *rest in with_titles()]
    yield "line breaks that look like rows", text(like_rows, TITLED)
    inches = [(u, '12" vinyl', *rest) for u, _, *rest in with_titles()]
    lines = ["\t".join(map(str, row)) for row in [TITLED, *inches]]
    yield "inches, tabs", "\n".join(lines)
    yield "inches, commas", "\n".join(lines).replace("\t", ",")
    lone = [*lines[:2], lines[2].replace('12" vinyl', '"Weird Al'), *lines[3:]]
    yield "a lone quote, tabs", "\n".join(lone), "line 3: "
    yield "a lone quote, tabs, said", "\n".join(lone), {"quote": "none"}
    yield "a lone quote, commas", "\n".join(lone).replace("\t", ","), "line 3: "
    pair = [lines[0], *(it.replace('12" vinyl', "b") for it in lines[1:])]
    pair[2], pair[5] = (pair[at].replace("\tb", '\t"b') for at in (2, 5))
    pair[5] = pair[5].replace('\t"b', '\tb"')
    yield "a quoted block of rows, tabs", "\n".join(pair), "look like rows"
    yield "a quoted block of rows, commas", "\n".join(pair).replace("\t", ","), "look like rows"
    yield "a block of rows, said", "\n".join(pair), {"quote": "none"}
    named = "\n".join(lone).replace("11\t", '"11"\t')
    yield "quoted ids beside a lone quote", named, "--quote none"
    yield "mysql", "\n".join(lines).replace('12" vinyl', "\\N")
    nicks = [(f'"{user}', *rest) for user, *rest in rows()]
    nick_lines = "\n".join("\t".join(map(str, row)) for row in [HEADER, *nicks])
    quoted_ids = rows([f'"{it}' for it in USERS])
    yield "ids that start with a quote, tabs", nick_lines, {"quote": "none"}, quoted_ids


def _ids() -> Iterator[tuple[Any, ...]]:
    """Ids of every type."""
    text_ids, big = rows(IDS), [2**63 + user for user in USERS]
    yield "text ids", text(text_ids), text_ids
    zeros = rows([f"00{user}" for user in USERS])
    yield "leading zeros", text(zeros), zeros
    yield "whole floats (pandas)", text(rows([float(user) for user in USERS]))
    some = [float(user) if user < 13 else user for user in USERS]
    yield "7 and 7.0", text(rows(some))
    halves = rows([user + 0.5 for user in USERS])
    yield "versions", text(halves), rows([f"{user}.5" for user in USERS])
    yield "rounded by a spreadsheet", text(rows(["1.23457E+12"] * 8)), "rounded"
    yield "rounded by pandas", text(rows([1e17 + user * 1000 for user in USERS])), "rounded"
    yield "64 bits", text(rows(big)), rows(list(map(str, big)))
    yield "UInt64", parquet(user=pl.Series(big, dtype=pl.UInt64)), rows(list(map(str, big)))
    yield "Int128", parquet(user=pl.Series(big, dtype=pl.Int128)), rows(list(map(str, big)))
    yield "Int32", parquet(user=pl.Series(USERS, dtype=pl.Int32))
    yield "Float64 (nullable)", parquet(user=[float(user) for user in USERS])
    yield "Float64 rounded", parquet(user=[float(2**53 + user) for user in USERS]), "rounds whole"
    yield "Float32", parquet(user=pl.Series(USERS, dtype=pl.Float32))
    wide = pl.Series([2**24 + user for user in USERS], dtype=pl.Float32)
    yield "Float32 rounded", parquet(user=wide), "rounds whole numbers above 16,777,216"
    yield "decimal(20,0)", parquet(user=[Decimal(user) for user in USERS])
    yield "decimal(20,2)", parquet(user=pl.Series(USERS).cast(pl.Decimal(20, 2)))
    yield "bytes (ClickHouse)", parquet(user=[name.encode() for name in IDS]), text_ids
    yield "uuid bytes", parquet(user=[bytes([255, user] * 8) for user in USERS]), "type Binary"
    yield "categories", parquet(user=pl.Series(IDS, dtype=pl.Categorical)), text_ids
    yield "categories of numbers", parquet(user=pl.Series([*map(str, USERS)], dtype=pl.Categorical))
    yield "enum", parquet(user=pl.Series(IDS, dtype=pl.Enum(sorted(set(IDS))))), text_ids
    yield "lists", parquet(user=[[user] for user in USERS]), "type List"
    yield "structs", parquet(user=[{"id": user} for user in USERS]), "type Struct"
    yield "other columns of any type", parquet(a=[[1]] * 8, b=[b"\xff"] * 8, c=[{"x": 1}] * 8)
    yield "null", parquet(user=[*USERS[:7], None]), "row 8: there is no user"
    nan = parquet(user=[*map(float, USERS[:7]), float("nan")])
    yield "not a number", nan, "row 8: user must be a whole number or text, got nan"
    for word in ("NULL", "\\N", "None", "nan", "NaN", "NA", "#N/A", "<NA>", "", "-1", "?"):
        name, missing = word.replace("/", "") or "nothing", rows([*IDS[:7], word])
        how = "--skip-bad-rows leaves such rows out, --allow-null-ids keeps such ids"
        stands = f"line 9: user {word!r} stands for a missing id; {how}"
        yield f"missing {name}", text(missing), stands if word else "line 9: there is no user"
        if word:
            yield f"missing {name}, said", text(missing), {"allow_null_ids": True}, missing
    nul = parquet(user=[*IDS[:7], "b\0"])
    yield "a null character", nul, r"user 'b\x00' ends with a NUL character, which NumPy drops"
    yield "missing -1", parquet(user=[*USERS[:7], -1]), "row 8: "
    yield "a class of none", text(rows([*IDS[:7], "none"])), rows([*IDS[:7], "none"])
    yield "a long id", text(rows([*IDS[:7], "x" * 20_000])), "has 20,000 characters"
    arabic = ["\u0661\u0662"] * 8
    yield "arabic digits", text(rows(arabic)), rows(arabic)


def _times() -> Iterator[tuple[Any, ...]]:
    """Dates in every order, epochs in every unit."""
    moments, days = rows(times=TIMES), rows(times=DAYS)
    forms = {
        **dict.fromkeys(("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y/%m/%d %H:%M:%S"), moments),
        **dict.fromkeys(("%Y-%m-%d %H:%M:%S.000 UTC", "%Y-%m-%d %H:%M:%S+00:00"), moments),
        **dict.fromkeys(("%Y-%m-%d", "%Y/%m/%d"), days),
        **dict.fromkeys(("%d.%m.%Y", "%m/%d/%Y", "%d-%m-%Y %H:%M"), "must be a number, a date"),
    }
    for number, (form, outcome) in enumerate(forms.items()):
        yield f"dates {number}", dated(form), outcome
    american = "%m/%d/%Y %I:%M:%S %p"
    yield "a pattern", dated(american), {"date_format": american}, moments
    short = [f"{it.day}/{it.month}/{it.year}" for it in TIMES]
    yield "dates without zeros", text(rows(times=short)), {"date_format": "%d/%m/%Y"}, days
    offset = [f"{it + timedelta(hours=2):%Y-%m-%dT%H:%M:%S}+02:00" for it in TIMES]
    yield "an offset", text(rows(times=offset)), moments
    numbers = [int(f"{it:%d%m%Y}") for it in TIMES]
    yield "ddmmyyyy", dated("%d%m%Y"), "look like dates"
    yield "ddmmyyyy, said", dated("%d%m%Y"), {"date_format": "%d%m%Y"}, days
    yield "ddmmyyyy, parquet", parquet(timestamp=numbers), {"date_format": "%d%m%Y"}, days
    yield "ddmmyyyy, unsaid parquet", parquet(timestamp=numbers), "look like dates"
    american = [int(f"{it:%m%d%Y}") for it in TIMES]
    yield "mmddyyyy", text(rows(times=american)), "look like dates"
    iso = [int(f"{it:%Y%m%d}") for it in TIMES]
    yield "yyyymmdd", text(rows(times=iso)), rows(times=iso)
    yield "month names", dated("%d %b %Y"), "must be a number, a date"
    yield "month names, said", dated("%d %b %Y"), {"date_format": "%d %b %Y"}, days
    wrongly = {"date_format": "%d.%m.%Y"}
    yield "years of two digits", dated("%d.%m.%y"), "must be a number, a date"
    yield "years of two digits, said", dated("%d.%m.%y"), wrongly, "must be a number, a date"
    arabic = "\u0663\u0661.\u0660\u0665.2024"
    yield "arabic digits in dates", text(rows(times=[arabic] * 8)), "must be a number, a date"
    milli = [1000 * it for it in EPOCHS]
    yield "milliseconds", text(rows(times=milli)), rows(times=milli)
    yield "seconds and milliseconds", text(rows(times=[*EPOCHS[:4], *milli[4:]])), "different units"
    yield "the same, parquet", parquet(timestamp=[*EPOCHS[:4], *milli[4:]]), "different units"
    yield "an epoch of 0", text(rows(times=[0, *EPOCHS[1:]])), "line 2: timestamp must be"
    yield "float epochs", text(rows(times=[f"{it}.0" for it in EPOCHS]))
    yield "Float32 epochs", parquet(timestamp=pl.Series(EPOCHS, dtype=pl.Float32)), "rounds whole"
    large = [2**60 + it for it in EPOCHS]
    yield "whole numbers of any size", parquet(timestamp=large), rows(times=large)
    for unit in ("ms", "us", "ns"):
        column = pl.Series(TIMES).cast(pl.Datetime(unit))
        yield f"datetime[{unit}]", parquet(timestamp=column), moments
    zoned = pl.Series(TIMES).dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    yield "datetime with a zone", parquet(timestamp=zoned), moments
    yield "date", parquet(timestamp=pl.Series(TIMES).cast(pl.Date)), days
    ends = [*TIMES[:7], datetime(9999, 12, 31)]
    yield "the end of time", parquet(timestamp=ends), "row 8: timestamp must be"
    yield "the last day", parquet(timestamp=[*TIMES[:7], date(9999, 12, 31)]), "row 8"
    labels = pl.Series([f"{it:%Y-%m-%d}" for it in TIMES], dtype=pl.Categorical)
    yield "categories of dates", parquet(timestamp=labels), days
    yield "bytes of dates", parquet(timestamp=[f"{it:%Y-%m-%d}".encode() for it in TIMES]), days
    yield "durations", parquet(timestamp=[timedelta(days=1)] * 8), "type Duration"
    yield "times of day", parquet(timestamp=[FIRST.time()] * 8), "type Time"
    yield "booleans as times", parquet(timestamp=[True] * 8), "must be a number, a date"


def _ratings() -> Iterator[tuple[Any, ...]]:
    """Numbers of other countries and types."""
    comma = [str(it).replace(".", ",") for it in RATINGS]
    yield "decimal commas", text(rows(ratings=comma), delimiter=";"), "write a decimal point"
    yield "thousands", text(rows(ratings=["1,234.5"] * 8)), "must be a finite number"
    yield "thousands of 3 digits", text(rows(ratings=["1,234"] * 8)), "must be a finite number"
    yield "percent", text(rows(ratings=["80%"] * 8)), "must be a finite number"
    yield "infinity", text(rows(ratings=["inf"] * 8)), "must be a finite number"
    yield "exponents", text(rows(ratings=[f"{it:e}" for it in RATINGS]))
    tenths = [it + 0.1 for it in RATINGS]
    single = parquet(rating=pl.Series(tenths, dtype=pl.Float32))
    yield "Float32 ratings", single, rows(ratings=[round(it, 6) for it in tenths])
    yield "decimal ratings", parquet(rating=pl.Series(RATINGS).cast(pl.Decimal(5, 2)))
    yield "text ratings", parquet(rating=list(map(str, RATINGS)))
    labels = pl.Series(list(map(str, RATINGS)), dtype=pl.Categorical)
    yield "categories of ratings", parquet(rating=labels)
    yield "boolean ratings", parquet(rating=[True] * 8), "type Boolean"
    yield "missing ratings", parquet(rating=[*RATINGS[:7], None]), "row 8: there is no rating"


def _types() -> Iterator[tuple[Any, ...]]:
    """Files that are empty or wide."""
    yield "empty", "", "is empty"
    yield "only a header", ",".join(HEADER) + "\n", "has no interactions"
    names = [*HEADER, *(f"c{number}" for number in range(3000))]
    yield "wide", text([(*row, *range(3000)) for row in rows()], names)
    yield "wide with blank lines", text([(*row, *range(3000)) for row in rows()], names) + "\n\n"


CASES = [*_text(), *_quotes(), *_ids(), *_times(), *_ratings(), *_types()]


@pytest.mark.parametrize(
    ("name", "content", "more"),
    [(*case[:2], case[2:]) for case in CASES],
    ids=[it[0] for it in CASES],
)
def test_a_foreign_table_is_read_rightly_or_refused(write, name, content, more):
    content = content.encode() if isinstance(content, str) else content
    suffix = ".parquet" if content.startswith(b"PAR1") else ".csv"
    path = write(name if "." in name else name + suffix, content)
    said = next((it for it in more if isinstance(it, dict)), {})
    expected = next((it for it in more if not isinstance(it, dict)), EXPECTED)
    options = RankingData(split="time", sum_ratings=True, **said)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=re.escape(expected)) as refusal:
            read_interactions_of(path, options)
        assert "\n" not in str(refusal.value)
        return
    frame, left_out = read_interactions_of(path, options)
    ids = [common_ids([frame[kind]])[0] for kind in ("user", "item")]
    assert left_out == 0
    assert frame.with_columns(ids).select("user", "item", "rating", "timestamp").rows() == expected
