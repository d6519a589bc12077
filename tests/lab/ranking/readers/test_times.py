"""Times in text: the moment that each form means."""

from datetime import datetime

import numpy as np
import polars as pl
import pytest

from bayescl_lab.ranking.readers.times import times


def read(*values: str) -> list:
    return times(pl.Series("timestamp", values), None).to_list()


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


def test_no_digit_of_a_time_is_lost():
    big = 1_700_000_000_000_000_000
    assert read(str(big), str(big + 1)) == [big, big + 1]
    assert read("1.5", "2") == [1.5, 2.0]
    text = pl.Series("t", ["2024-05-31T12:00:00.123456788", "2024-05-31T12:00:00.123456789"])
    assert np.diff(times(text, None).to_physical()).tolist() == [1]
