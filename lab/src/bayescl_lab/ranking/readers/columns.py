"""Selection of the columns of a table.

Columns without given names are guessed. Names are compared by their letters and digits, ignoring
case: ``user_id``, ``userId``, ``User ID`` and ``USERID`` are the same. Names with "user" or "item"
are preferred to synonyms: ``user_id`` to ``customer_id``. If two columns match equally well, the
error names both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bayescl_lab._tables import plain_name
from bayescl_lab.ranking.data import RankingData

_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""Suffixes of a word. Ids are preferred."""


def _forms(words: str) -> list[set[str]]:
    """Return the spellings of words, ids first."""
    return [{word + key for word in words.split()} for key in _KEYS]


_USERS = _forms(
    "customer client member visitor viewer reader listener player buyer shopper reviewer account "
    "profile person consumer subscriber session"
)
_ITEMS = _forms(
    "movie film product book article song track artist business restaurant venue place location "
    "poi video game app recipe anime beer course job offer listing hotel sku asin isbn goods news"
)
_RATINGS = "rating ratings stars score overall rate userrating"
_TIMES = (
    "timestamp time datetime date ts unixtime unixreviewtime reviewtime eventtime createdat ratedat"
)
_GUESSES: Mapping[str, Sequence[set[str]]] = {
    # A table with both "item" and "item_id" may hold titles in the first, or line numbers in the
    # second. They match equally well, so the user has to choose.
    "user": [{"user", "userid"}, *_forms("user"), {"uid"}, *_USERS],
    "item": [{"item", "itemid"}, *_forms("item"), {"iid"}, *_ITEMS],
    "rating": [{name} for name in _RATINGS.split()],
    "timestamp": [{name} for name in _TIMES.split()],
}
"""Sets of names for each kind of column. The first set with a name in the header is used."""


def chosen_columns(
    header: Sequence[str], wanted: Mapping[str, str | None], where: object
) -> dict[str, str]:
    """Return the names of the wanted columns in a header; guess names that are ``None``.

    Raises ``ValueError`` if a name is missing, ambiguous, given twice, or cannot be guessed.

    Example:
        >>> chosen_columns(["userId", "movieId", "rating"], {"user": None, "item": None}, "a.csv")
        {'user': 'userId', 'item': 'movieId'}
    """
    shown = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
    free = [name for name in header if name not in wanted.values()]
    columns: dict[str, str] = {}
    for kind, name in wanted.items():
        option = f"--{kind}-column"
        fitting = _guessed(kind, free) if name is None else [name] * (name in header)
        if len(set(fitting)) > 1:
            raise ValueError(
                f"{where} has {len(fitting)} columns that look like {kind}s, "
                f"{', '.join(fitting)}: name the right one with {option}"
            )
        if not fitting:
            lacking = f"that looks like {kind}s" if name is None else f"{name!r} for the {kind}s"
            headless = any(re.fullmatch(r"-?\d+(\.\d+)?", value) for value in header)
            raise ValueError(
                f"{where} has no column {lacking}; it has {shown}: name the right one with {option}"
                + (", or add --no-header if this is the first row of the data" * headless)
            )
        [name] = set(fitting)
        if name in columns.values():
            raise ValueError(f"{where}: column {name!r} is used twice ({option})")
        if header.count(name) > 1:
            raise ValueError(f"{where} has {header.count(name)} columns called {name!r}")
        columns[kind] = name
    return columns


def check_order(
    columns: Mapping[str, str], values: Mapping[str, str], options: RankingData, where: object
) -> None:
    """Raise ``ValueError`` if the first ids without a header look swapped, such as i1, u1.

    Columns with given names are not checked.
    """
    if options.user_column is not None or options.item_column is not None:
        return
    looks = {"user": "", "item": ""}
    for kind in looks:
        word = re.sub(r"[\W\d_].*", "", values.get(columns[kind], "").casefold())
        for other in looks:
            if word == other[0] or any(word in names for names in _GUESSES[other]):
                looks[kind] = other
    if looks == {"user": "item", "item": "user"}:
        raise ValueError(
            f"{where} starts with {values[columns['user']]!r} and {values[columns['item']]!r}, "
            "which look like an item and a user: pass --user-column 2 --item-column 1, or "
            "--user-column 1 --item-column 2 if they are not"
        )


def _guessed(kind: str, header: Sequence[str]) -> list[str]:
    """Return the columns that best match a kind."""
    matches = ([name for name in header if plain_name(name) in it] for it in _GUESSES[kind])
    return next(filter(None, matches), [])
