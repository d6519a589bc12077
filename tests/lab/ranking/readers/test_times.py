"""Times in text: the moment that each form means, and forms that could mean two."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.readers.times import times


def read(*values: str, date_format: str | None = None) -> list:
    return times(pl.Series("timestamp", values), date_format).to_list()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-05-31", datetime(2024, 5, 31)),
        ("2024-5-1", datetime(2024, 5, 1)),
        ("2024/05/31 07:08", datetime(2024, 5, 31, 7, 8)),
        ("2024-05-31T12:00:01", datetime(2024, 5, 31, 12, 0, 1)),
        ("2024-05-31T12:00:01.5Z", datetime(2024, 5, 31, 12, 0, 1, 500_000)),
        ("2024-05-31 12:00:01,25", datetime(2024, 5, 31, 12, 0, 1, 250_000)),
        ("1970-01-01T09:00:10+09:00", datetime(1970, 1, 1, 0, 0, 10)),
        ("2024-05-31 12:00 -0530", datetime(2024, 5, 31, 17, 30)),
    ],
)
def test_a_date_means_one_moment_in_utc(text, moment):
    assert read(text) == [moment]


@pytest.mark.parametrize(
    "text",
    ["soon", "2024-02-30", "31.5.2024", "05/31/2024", "2024-05-31 25:00", "9999-12-31", "2024-05"],
)
def test_what_is_not_a_date_is_missing(text):
    assert read("2024-01-01", text)[1] is None


def test_other_dates_are_read_by_their_pattern():
    assert read("01/06/2024 1:02 PM", date_format="%d/%m/%Y %I:%M %p") == [
        datetime(2024, 6, 1, 13, 2)
    ]
    assert read("01062024", "1062024", date_format="%d%m%Y") == [datetime(2024, 6, 1)] * 2
    assert read("1 Jun 2024", date_format="%d %b %Y") == [datetime(2024, 6, 1)]


def test_no_digit_of_a_time_is_lost():
    big = 1_700_000_000_000_000_000
    assert read(str(big), str(big + 1)) == [big, big + 1]
    assert read("1.5", "2") == [1.5, 2.0]
    text = pl.Series("t", ["2024-05-31T12:00:00.123456788", "2024-05-31T12:00:00.123456789"])
    assert np.diff(times(text, None).to_physical()).tolist() == [1]


def test_dates_of_unknown_order_are_refused(write):
    rows = [f"{user},{item},0{item + 1}/01/2024" for user in range(5) for item in range(3)]
    path = str(write("a.csv", "\n".join(["user,item,date", *rows])))
    with pytest.raises(
        ValueError, match="timestamp must be a number, a date such as 2024-05-31, or"
    ):
        load_interactions(path, split="last")
    parts = load_interactions(path, split="last", date_format="%m/%d/%Y")
    assert set(parts.evaluation.matrix.indices.tolist()) == {2}
