"""Which column of a table holds users, items, ratings and times, where nobody said so.

Only letters and digits of a name count, and not their case: ``user_id``, ``userId``, ``User ID``
and ``USERID`` are alike. A name with "user" or "item" in it counts before other words for them:
``user_id`` before ``customer_id``. Where two columns fit equally well, neither is taken, and the
message names both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_KEYS = ("id", "", "no", "nr", "number", "key", "code", "uuid", "hash", "index", "idx")
"""What may follow a word; the number of a thing counts before the thing."""

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
"""By what is looked for, sets of names; the first set with a name in the header decides."""


def chosen_columns(
    header: Sequence[str], wanted: Mapping[str, str | None], where: object, what: str = "column"
) -> dict[str, str]:
    """The names of the columns that are wanted.

    Args:
        header: the names of the table's columns.
        wanted: by "user", "item", "rating" and "timestamp" the name that was asked for; None to
            guess it.
        where: the table, as messages name it.
        what: what messages call a column.

    Returns:
        A name of the header for each that is wanted.

    Raises:
        ValueError: if a name is not in the header, stands there twice or was asked for twice; or
            if no name, or more than one, looks like what is wanted.

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
            raise ValueError(f"{where}: {what} {name!r} cannot be two things at once ({option})")
        if header.count(name) > 1:
            raise ValueError(f"{where} has {header.count(name)} {what}s called {name!r}")
        found[kind] = name
    return found


def guesses(wanted: Mapping[str, str | None], found: Mapping[str, str]) -> dict[str, str]:
    """Those of the names found that nobody said and that are not the plain ones.

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
