"""Exports of shops as they come: what a command reads, counts, or refuses in one line."""

import json
from pathlib import Path

import polars as pl
import pytest

PAIRS = [(user, item) for user in range(20) for item in range(12) if (user + item) % 3 == 0]
ROWS = [f"u{user},i{item}" for user, item in PAIRS]
TEXT = "\n".join(["user,item", *ROWS]) + "\n"
QUICK = "train ranking --dim 4 --epochs 1 --device cpu"
TRAIN = f"{QUICK} --split none --out run"


def interactions() -> dict[str, int]:
    return json.loads(Path("run/data.json").read_text())["interactions"]


def test_a_table_without_header_says_its_columns(bayescl):
    Path("a.csv").write_text("\n".join(["i1,u1", *ROWS]))
    outcome = bayescl(f"{TRAIN} --data a.csv --no-header")
    assert "users from column 1 (such as 'i1'), items from column 2 (such as 'u1')" in outcome.out


@pytest.mark.parametrize("name", ["\udce9.csv", "\udce9.parquet"])
def test_a_path_that_is_not_utf_8_is_refused_in_one_line(bayescl, name):
    write = pl.DataFrame.write_csv if name.endswith("csv") else pl.DataFrame.write_parquet
    write(pl.read_csv(TEXT.encode()), "a")
    Path("a").rename(name)
    complaint = bayescl(f"{TRAIN} --data {name}").complaint
    assert "cannot read \\udce9." in complaint
    assert complaint.endswith("its path is not UTF-8: rename the file")


def test_returned_purchases_are_subtracted_on_request_and_mentioned_otherwise(bayescl):
    lines = [f"{row},2" for row in ROWS] + [f"{row},-2" for row in ROWS[:3]] + [f"{ROWS[5]},-1"]
    Path("a.csv").write_text("\n".join(["user,item,quantity", *lines]))
    line = f"{TRAIN} --data a.csv --rating-column quantity"
    assert "3 sums of ratings not above 0 left out" in bayescl(f"{line} --sum-ratings").out
    assert interactions()["train"] == len(ROWS) - 3
    outcome = bayescl(f"{line.replace('run', 'other')} --min-rating 1")
    assert "4 ratings below 0 (if they are returns, --sum-ratings subtracts them)" in outcome.out


def test_nothing_to_rank_is_said_by_training_and_by_recommending(bayescl):
    Path("a.csv").write_text("1,1\n1,2\n2,1\n2,2\n")
    line = f"{TRAIN} --data a.csv --no-header"
    assert "every user has every item, so nothing is left to rank" in bayescl(line).complaint
    Path("a.csv").write_text("1,1\n1,2\n1,3\n2,1\n2,2\n")
    assert bayescl(f"{TRAIN} --data a.csv --no-header").status == 0
    nothing = "1 user with every item: nothing is left to recommend (see --allow-known)\n"
    assert bayescl("recommend run --user 1").out == nothing
    assert bayescl("recommend run --all --out a.csv").out == f"1 list written to a.csv\n{nothing}"


def test_a_wrong_date_format_is_not_an_advice_to_skip_all_rows(bayescl):
    Path("a.csv").write_text("user,item,time\n" + "".join(f"{row},2024-05-01\n" for row in ROWS))
    options = "--split last --timestamp-column time --date-format %d.%m.%Y"
    complaint = bayescl(f"{QUICK} --data a.csv {options} --out run").complaint
    assert "or a date in the form of --date-format, got '2024-05-01'" in complaint
    assert "--skip-bad-rows" not in complaint


def test_an_evaluation_without_a_held_out_part_says_so_and_the_page_has_the_counts(bayescl):
    Path("a.csv").write_text(TEXT + ROWS[0])
    assert bayescl(f"{TRAIN} --data a.csv").status == 0
    assert "nothing is left to evaluate" in bayescl("evaluate run").out
    assert bayescl(f"{QUICK} --data a.csv --out judged").status == 0
    assert bayescl("report judged").status == 0
    page = Path("judged/report.html").read_text()
    for words in ("of 20 users", "1 duplicate pair merged"):
        assert words in page


def test_an_id_that_differs_by_a_decimal_point_gets_a_hint(bayescl):
    Path("a.csv").write_text("user,item\nann,i0\n" + "".join(f"{u}.0,i{i}\n" for u, i in PAIRS))
    assert bayescl(f"{TRAIN} --data a.csv").status == 0
    assert "has no user 3; 3.0 is known" in bayescl("recommend run --user 3").complaint


HOSTILE = [
    ("train ranking --data a.csv --split time", "has no column that looks like timestamps"),
    ("train ranking --data a.csv --min-rating 1", "has no column that looks like ratings"),
    ("train ranking --data gone.csv --min-rating 5", "gone.csv: no interactions are left"),
    (
        "train ranking --data a.csv --init run",
        "pairs of the test split, so the evaluation would be biased",
    ),
    ("recommend run --user 1234", "a.csv has no user 1234"),
    ("evaluate run --data a.csv", "has no new interactions"),
    ("embed run --of images --out e.npy", "of must be one of items, users, got 'images'"),
    ("embed run --data a.csv --out e.npy", "--data is for encoders"),
]


def test_hostile_calls_on_recommenders_get_one_line(bayescl):
    for name, text in {
        "a": TEXT,
        "gone": "user,item,rating\nu1,i1,2\nu1,i1,-2\n",
    }.items():
        Path(f"{name}.csv").write_text(text)
    assert bayescl(f"{TRAIN} --data a.csv").status == 0
    wrong = {}
    for words, message in HOSTILE:
        complaint = bayescl(words).complaint
        hints = (".py", "/src/", "Traceback", "polars", "ignore_errors", "schema")
        if message not in complaint or any(hint in complaint for hint in hints):
            wrong[words] = complaint
    assert not wrong
