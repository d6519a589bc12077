"""Times in text: the moment that each form means, and forms that could mean two."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.readers.times import times


def read(*values: str, date_format: str | None = None) -> list:
    return times(pl.Series("timestamp", values), date_format, "a.csv").to_list()


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
        ("31.5.2024", datetime(2024, 5, 31)),
        ("31/05/2024 23:59:59", datetime(2024, 5, 31, 23, 59, 59)),
        ("05/31/2024 12:30 AM", datetime(2024, 5, 31, 0, 30)),
        ("5-31-2024 1:02 pm", datetime(2024, 5, 31, 13, 2)),
    ],
)
def test_a_date_means_one_moment_in_utc(text, moment):
    assert read(text) == [moment]


@pytest.mark.parametrize(
    "text", ["soon", "2024-02-30", "31.5.24", "2024-05-31 25:00", "9999-12-31", "2024-05"]
)
def test_what_is_not_a_date_is_missing(text):
    assert read("2024-01-01", text)[1] is None


def test_one_value_above_12_tells_the_order_of_the_whole_column():
    assert read("01/06/2024", "01/15/2024") == [datetime(2024, 1, 6), datetime(2024, 1, 15)]
    assert read("01/06/2024", "15/01/2024") == [datetime(2024, 6, 1), datetime(2024, 1, 15)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("01/06/2024", "02/05/2024"), "'01/06/2024', which may be day or month first: name"),
        (("15/01/2024", "01/15/2024"), "'15/01/2024', in both orders: name the order with --date"),
    ],
)
def test_what_does_not_tell_day_from_month_is_refused_unless_named(values, message):
    with pytest.raises(ValueError, match=message):
        read(*values)
    assert read("01/06/2024", date_format="dmy") == [datetime(2024, 6, 1)]
    assert read("01/06/2024", date_format="mdy") == [datetime(2024, 1, 6)]
    assert read("1 Jun 2024", date_format="%d %b %Y") == [datetime(2024, 6, 1)]


def test_no_digit_of_a_time_is_lost():
    big = 1_700_000_000_000_000_000
    assert read(str(big), str(big + 1)) == [big, big + 1]
    assert read("1.5", "2") == [1.5, 2.0]
    text = pl.Series("t", ["2024-05-31T12:00:00.123456788", "2024-05-31T12:00:00.123456789"])
    assert np.diff(times(text, None, "a").to_physical()).tolist() == [1]


def test_american_dates_are_never_read_as_european_ones_even_if_bad_rows_may_go(write):
    rows = [
        f"{user},{item},{month:02}/0{item + 1}/2024"
        for user in range(5)
        for item, month in enumerate((1, 2, 3))
    ]
    text = "\n".join(["user,item,date", *rows])
    for lines in (text, text + "\n9,9,when"):
        with pytest.raises(ValueError, match="may be day or month first: name the order"):
            load_interactions(str(write("a.csv", lines)), split="last", skip_bad_rows=True)
    parts = load_interactions(str(write("a.csv", text)), split="last", date_format="mdy")
    assert set(parts.evaluation.matrix.indices.tolist()) == {2}
    text += "\n9,9,01/15/2024"
    parts = load_interactions(str(write("a.csv", text)), split="last")
    assert set(parts.evaluation.matrix.indices.tolist()) == {2}
