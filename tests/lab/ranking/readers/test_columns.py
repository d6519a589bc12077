"""Columns of tables whose names nobody said."""

import re

import pytest

from bayescl_lab._tables import find_columns
from bayescl_lab.ranking.readers.table import USUAL_NAMES

BOTH = {"user": None, "item": None}


def chosen_columns(header: str, wanted: dict[str, str | None]) -> dict[str, str]:
    usual = {kind: USUAL_NAMES[kind] for kind in wanted}
    return find_columns("a.csv", header.split(","), usual, wanted, required=wanted)


@pytest.mark.parametrize(
    ("header", "user", "item"),
    [
        ("user,item", "user", "item"),
        ("user_id,item_id,rating,timestamp", "user_id", "item_id"),
        ("userId,movieId,rating,timestamp", "userId", "movieId"),
        ("USERID,Item ID", "USERID", "Item ID"),
        ("rating,asin,user_id,parent_asin", "user_id", "asin"),
        ("reviewerID,asin,overall,unixReviewTime", "reviewerID", "asin"),
        ("customer,product,stars", "customer", "product"),
        ("user_name,user_id,customer_id,movie,movie_id", "user_id", "movie_id"),
        ("uid,iid", "uid", "iid"),
        ("Bücher,user.id,item-no", "user.id", "item-no"),
    ],
)
def test_usual_names_are_recognized(header, user, item):
    assert chosen_columns(header, BOTH) == {"user": user, "item": item}


def test_names_that_were_said_are_taken_and_not_guessed_for_anything_else():
    header = "user,item,buyer_code,rating,stars"
    wanted = {"user": "buyer_code", "item": None, "rating": "stars"}
    chosen = {"user": "buyer_code", "item": "item", "rating": "stars"}
    assert chosen_columns(header, wanted) == chosen


@pytest.mark.parametrize(
    ("header", "wanted", "message"),
    [
        ("a,b", BOTH, "a.csv has no column that looks like users; it has a, b: name the right "),
        ("user,b", BOTH, "looks like items; it has user, b: name the right one with --item-column"),
        ("user_id,userId,item", BOTH, "2 columns that look like users, user_id, userId: name the"),
        ("user,item,item_id", BOTH, "columns that look like items, item, item_id: name the"),
        ("User ID,user,item", BOTH, "columns that look like users, User ID, user: name the"),
        ("user,track_id,artist_id", BOTH, "look like items, track_id, artist_id: name the right"),
        ("user,item,user", BOTH, "a.csv has 2 columns called 'user'"),
        (",,", BOTH, "no column that looks like users"),
        ("user,item", {"user": None, "item": "user"}, "no column that looks like users"),
        ("a,b", {"user": "c"}, "no column 'c'; it has a, b: name the right one with"),
        ("a,b", {"user": "a", "item": "a"}, "'a' is used twice (--item-column)"),
        ("user,item", {**BOTH, "rating": None}, "looks like ratings; it has user, item: name the"),
    ],
)
def test_what_cannot_be_told_names_the_option(header, wanted, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        chosen_columns(header, wanted)
