"""Every text format: what a good file means, and the message for each kind of damage."""

import re

import pytest

from bayescl_lab.ranking.readers.formats import (
    read_lightgcn,
    read_ml_1m,
    read_ml_100k,
    read_yahoo_r3,
)

ML_100K = "196\t242\t3\t881250949\n186\t302\t3\t891717742\r\n\n196\t377\t1\t878887116"
ML_1M = "1::1193::5::978300760\n2::661::3::978302109\n"


def complaint(path, message: str) -> str:
    """A pattern for a message about a file."""
    return re.escape(f"{path}{message}")


def test_movielens_gives_ratings_and_times(write):
    folder = write("u.data", ML_100K).parent
    write("ratings.dat", ML_1M)
    raw = read_ml_100k(folder, "x")
    assert raw.train.rows()[1:] == [("186", "302", 3.0, 891717742), ("196", "377", 1.0, 878887116)]
    raw = read_ml_1m(folder, "x")
    assert raw.train.rows() == [("1", "1193", 5.0, 978300760), ("2", "661", 3.0, 978302109)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", " is empty"),
        ("1\t2\t3\n", " has no column '4'; it has 1, 2, 3"),
        ("1\t2\t3\t4\n\n1\t2\t3\t4\t5\n", ", line 3: there are more values than in the first line"),
        ("1\t2\t3\t4\n\t2\t3\t4\n", ", line 2: there is no user"),
        ("1\t2\tgood\t4\n", ", line 1: rating must be a finite number, got 'good'"),
        (
            "1\t2\t3\tlater\n",
            ", line 1: timestamp must be a number, a date such as 2024-05-31, or ",
        ),
        ("1::2::3::4\n1::2::3:5::4\n", ", line 2: there is no timestamp"),
    ],
)
def test_damage_in_movielens_is_named_with_its_line(write, content, message):
    newer = "::" in str(content)
    path = write("ratings.dat" if newer else "u.data", content)
    with pytest.raises(ValueError, match=complaint(path, message)):
        (read_ml_1m if newer else read_ml_100k)(path.parent, "x")


def test_lightgcn_has_a_user_and_all_items_in_a_line(write):
    write("train.txt", "0 5 7 \n1 5\n\n2\n3\t9  4\r\n")
    write("test.txt", "0 9\n1\n")
    raw = read_lightgcn(write("x", "").parent, "tiny")
    assert raw.train.rows() == [(0, 5), (0, 7), (1, 5), (3, 9), (3, 4)]
    assert raw.test.rows() == [(0, 9)]
    assert raw.report == {"lines with a user but no item": 2}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0 1\n1 x 3 y\n", ", line 2: ids must be whole numbers, got 'x'"),
        ("0 1\n\n0 1.0\n", ", line 3: ids must be whole numbers, got '1.0'"),
        ("0 99999999999999999999\n", ", line 1: ids must be whole numbers"),
        ("", " is empty"),
        ("0\n1\n", " has no interactions"),
        (b"0 1\n\x80 1\n", ", line 2: ids must be whole numbers, got '\\x80'"),
    ],
)
def test_damage_in_lightgcn_is_named_with_its_line(write, content, message):
    write("train.txt", "0 1\n")
    path = write("test.txt", content)
    with pytest.raises(ValueError, match=complaint(path, message)):
        read_lightgcn(path.parent, "x")


def test_yahoo_merges_both_parts_for_users_who_are_in_both(write):
    write("ydata-ymusic-rating-study-v1_0-train.txt", "1\t14\t5\n2\t35\t1\n3\t14\t2\n")
    path = write("ydata-ymusic-rating-study-v1_0-test.txt", "1\t49\t1\n2\t14\t3\n")
    raw = read_yahoo_r3(path.parent, "yahoo-r3")
    rows = [("1", "14", 5.0), ("1", "49", 1.0), ("2", "14", 3.0), ("2", "35", 1.0)]
    assert sorted(raw.train.rows()) == rows
    assert raw.test is None
    assert raw.report == {"ratings left out (users without randomly drawn songs)": 1}


def test_files_that_are_missing_or_damaged_are_named(write):
    train = write("x-train.txt", "1\t14\t5\n")
    with pytest.raises(ValueError, match="must contain both files of Yahoo!R3"):
        read_yahoo_r3(train.parent, "yahoo-r3")
    path = write("x-test.txt", "1\t14\t5\n1\t14\n")
    with pytest.raises(ValueError, match=complaint(path, ", line 2: there is no rating")):
        read_yahoo_r3(path.parent, "yahoo-r3")
    folder = write("lists/train.txt", "0 1\n").parent
    with pytest.raises(ValueError, match=complaint("there is no file ", str(folder / "test.txt"))):
        read_lightgcn(folder, "x")
