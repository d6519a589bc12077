"""Data sets by name and path, and the parts they come in."""

import numpy as np
import pytest

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import guessed_columns, load_interactions

TABLE = "user,item,rating,timestamp\n" + "".join(
    f"{user},{item},{1 + (user + item) % 5},{100 * item + user}\n"
    for user in range(8)
    for item in range(10)
)


def ids(part) -> set[tuple]:
    users, items = part.pairs()
    return set(zip(part.user_ids[users].tolist(), part.item_ids[items].tolist(), strict=True))


@pytest.fixture
def table(write) -> str:
    return str(write("mine.csv", TABLE))


@pytest.mark.parametrize("split", [None, "per-user", "last"])
def test_validation_is_carved_from_training_and_test_stays_unseen(table, split):
    final = load_interactions(table, split=split)
    choosing = load_interactions(table, split=split, evaluate_on="validation")
    assert ids(choosing.train) | ids(choosing.evaluation) == ids(final.train)
    assert not ids(choosing.train) & ids(choosing.evaluation)
    assert not ids(final.evaluation) & ids(final.train)
    assert (final.evaluated_on, choosing.evaluated_on) == ("test", "validation")
    assert choosing.train.matrix.shape == final.train.matrix.shape == (8, 10)


def test_the_default_is_four_to_one_for_every_user_whatever_the_order_of_lines(table, write):
    parts = load_interactions(table)
    assert np.diff(parts.train.matrix.indptr).tolist() == [8] * 8
    assert np.diff(parts.evaluation.matrix.indptr).tolist() == [2] * 8
    header, *lines = TABLE.splitlines()
    shuffled = np.random.default_rng(0).permutation(lines).tolist()
    other = str(write("shuffled.csv", "\n".join([header, *shuffled])))
    assert ids(parts.train) == ids(load_interactions(other).train)
    assert ids(parts.train) != ids(load_interactions(table, split_seed=1).train)


def test_times_and_ratings_count_when_asked_for(table):
    parts = load_interactions(table, split="last")
    assert ids(parts.evaluation) == {(user, 9) for user in range(8)}
    assert parts.evaluation.timestamps.tolist() == [900.0 + user for user in range(8)]
    for options, count in (({}, 80), ({"min_rating": 4}, 32)):
        parts = load_interactions(table, **options)
        assert parts.train.num_interactions + parts.evaluation.num_interactions == count
    assert parts.report["ratings below 4 left out"] == 48


def test_a_second_table_is_the_test_part_and_unknown_ids_are_reported(write):
    train = write("train.csv", "u,i\n1,a\n2,b\n")
    test = write("test.csv", "u,i\n1,b\n2,new\n3,a\n")
    options = {"user_column": "u", "item_column": "i", "test_data": str(test)}
    parts = load_interactions(str(train), **options)
    assert ids(parts.train) == {(1, "a"), (2, "b")}
    assert ids(parts.evaluation) == {(1, "b"), (2, "new"), (3, "a")}
    assert parts.report == {
        "evaluation pairs of a user unknown to training": 1,
        "evaluation pairs with an item unknown to training": 1,
    }
    with pytest.raises(ValueError, match="must contain train"):
        load_interactions(str(train.parent))


def test_a_folder_of_lightgcn_keeps_its_split_and_validates_per_user(write):
    lists = [[user, *range(10)] for user in range(5)]
    write("train.txt", "\n".join(" ".join(map(str, row)) for row in lists))
    folder = str(write("test.txt", "0 10 11\n1 12\n").parent)
    final = load_interactions(folder)
    assert ids(final.evaluation) == {(0, 10), (0, 11), (1, 12)}
    for options, message in (
        ({"user_column": "u"}, "has a fixed format: user_column applies only to tables"),
        ({"test_data": "other.csv"}, "has a fixed format: test_data applies only to tables"),
        ({"split": "last"}, "split must be 'given' or 'none', got 'last'"),
    ):
        with pytest.raises(ValueError, match=message):
            load_interactions(folder, **options)
    assert final.train.num_interactions == 50
    choosing = load_interactions(folder, split="given", evaluate_on="validation")
    assert np.diff(choosing.evaluation.matrix.indptr).tolist() == [1] * 5
    assert ids(choosing.train) | ids(choosing.evaluation) == ids(final.train)


ROWS = [(user, item) for user in range(3) for item in range(5)]
LISTS = {"train.txt": "0 0 1 2 3\n1 0 1 2 3\n2 0 1 2 3\n", "test.txt": "0 4\n1 4\n2 4\n"}
YAHOO = "".join(f"{user}\t{item}\t3\n" for user, item in ROWS[:-1])


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("ml-100k", {"u.data": "".join(f"{u}\t{i}\t3\t1\n" for u, i in ROWS)}),
        # One folder deeper, as the archive unpacks.
        ("ml-1m", {"ml-1m/ratings.dat": "".join(f"{u}::{i}::3::1\n" for u, i in ROWS)}),
        ("ml-1m", LISTS),
        (
            "yahoo-r3",
            {
                "ydata-ymusic-train.txt": YAHOO,
                "ydata-ymusic-test.txt": "0\t0\t3\n1\t0\t2\n2\t4\t3\n",
            },
        ),
        ("gowalla", LISTS),
        ("yelp2018", LISTS),
    ],
)
def test_known_names_are_looked_for_in_the_data_folder(write, monkeypatch, tmp_path, name, files):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    for file, text in files.items():
        write(f"{name}/{file}", text)
    assert guessed_columns(RankingData(name)) == {}
    parts = load_interactions(name)
    assert parts.train.name == name
    assert ids(parts.train) | ids(parts.evaluation) == set(ROWS)
