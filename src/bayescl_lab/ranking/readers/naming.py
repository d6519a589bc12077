"""Guess which columns of a table hold users, items, ratings and times.

Names are compared by their letters and digits, ignoring case: ``user_id``, ``userId``, ``User ID``
and ``USERID`` are the same. A name with "user" or "item" comes before other words for them:
``user_id`` before ``customer_id``. If two columns fit equally well, neither is chosen, and the
error names both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""Suffixes of a word; a thing's number comes before the thing."""

_USERS = (
    "customer client member visitor viewer reader listener player buyer shopper reviewer account "
    "profile person consumer subscriber session"
)
_ITEMS = (
    "movie film product book article song track artist business restaurant venue place location "
    "poi video game app recipe anime beer course job offer listing hotel sku asin isbn goods news"
)
_RATINGS = ("rating", "ratings", "stars", "score", "overall", "rate", "userrating")
_TIMES = (
    "timestamp",
    "time",
    "datetime",
    "date",
    "ts",
    "unixtime",
    "unixreviewtime",
    "reviewtime",
    "eventtime",
    "createdat",
    "ratedat",
)


def _forms(words: str) -> list[frozenset[str]]:
    """Spellings of some words, those with a number first."""
    return [frozenset(word + key for word in words.split()) for key in _KEYS]


_GUESSES: Mapping[str, Sequence[frozenset[str]]] = {
    "user": [frozenset({"user"}), *_forms("user"), frozenset({"uid"}), *_forms(_USERS)],
    "item": [frozenset({"item"}), *_forms("item"), frozenset({"iid"}), *_forms(_ITEMS)],
    "rating": [frozenset({name}) for name in _RATINGS],
    "timestamp": [frozenset({name}) for name in _TIMES],
}
"""Sets of names for each kind of column; the first set with a name in the header decides."""


def chosen_columns(
    header: Sequence[str], wanted: Mapping[str, str | None], where: object, what: str = "column"
) -> dict[str, str]:
    """The names of the wanted columns.

    Args:
        header: the names of the table's columns.
        wanted: the given name for each of "user", "item", "rating" and "timestamp"; None to guess
            it.
        where: name of the table in messages.
        what: word for a column in messages.

    Returns:
        A name in the header for each wanted column.

    Raises:
        ValueError: if a name is not in the header, occurs twice or was given twice; or if no name,
            or more than one, fits.

    Example:
        >>> chosen_columns(["userId", "movieId", "rating"], {"user": None, "item": None}, "a.csv")
        {'user': 'userId', 'item': 'movieId'}
    """
    shown = ", ".join(header[:12]) + (", ..." if len(header) > 12 else "")
    taken = [name for name in wanted.values() if name is not None]
    found: dict[str, str] = {}
    for kind, name in wanted.items():
        option = f"--{kind}-column"
        if name is None:
            fitting = _guessed(kind, [one for one in header if one not in taken])
            if not fitting:
                raise ValueError(
                    f"{where} has no {what} that looks like {kind}s; it has {shown}: "
                    f"name the right one with {option}"
                )
            if len(set(fitting)) > 1:
                raise ValueError(
                    f"{where} has {len(fitting)} {what}s that look like {kind}s, "
                    f"{', '.join(fitting)}: name the right one with {option}"
                )
            name = fitting[0]
        elif name not in header:
            raise ValueError(
                f"{where} has no {what} {name!r} for the {kind}s; it has {shown}: "
                f"name the right one with {option}"
            )
        if name in found.values():
            raise ValueError(f"{where}: {what} {name!r} is used twice ({option})")
        if header.count(name) > 1:
            raise ValueError(f"{where} has {header.count(name)} {what}s called {name!r}")
        found[kind] = name
    return found


def guesses(wanted: Mapping[str, str | None], found: Mapping[str, str]) -> dict[str, str]:
    """The guessed names that differ from the plain ones.

    Example:
        >>> guesses({"user": None, "item": "sku"}, {"user": "userId", "item": "sku"})
        {'user': 'userId'}
    """
    return {kind: name for kind, name in found.items() if wanted.get(kind) is None and name != kind}


def _guessed(kind: str, header: Sequence[str]) -> list[str]:
    """The columns that look most like something."""
    plain = {name: re.sub(r"[\W_]+", "", name.casefold()) for name in header}
    for names in _GUESSES[kind]:
        fitting = [name for name in header if plain[name] in names]
        if fitting:
            return fitting
    return []
