"""Figures in a page of text that come from result files and not from somebody's keyboard.

A number in the page is followed by a comment that says where it is from::

    an error of 0.00116<!-- mse.csv; parameter=alpha, value=0.9, estimator=biased; mse; .3g -->

The four parts are the file, the records meant, what to take of them, and how to print it. What to
take is a column (of one record), ``count``, ``max COLUMN``, ``min COLUMN``, ``largest COLUMN``
(the absolute value), or ``rate COLUMN``: the exponent of the power of the candidates that fits it.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch

from bayescl.simulation.statistics import fitted_rate
from bayescl.simulation.tables import Table, Value, parsed

QUOTED = re.compile(
    r"(\S+?)<!-- (?P<file>\S+); (?P<where>[^;]*); (?P<what>[^;]+); (?P<form>\S+) -->"
)


def refreshed(text: str, folder: Path) -> str:
    """The page with every quoted number as the files have it now.

    Args:
        text: the page.
        folder: where the files are.

    Returns:
        The page; the same if it was up to date.

    Raises:
        ValueError: if a comment matches no or several records where one is meant.
        OSError: if a file is missing.
    """
    tables: dict[str, Table] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["file"]
        if name not in tables:
            tables[name] = Table.read(folder / name)
        number = taken(tables[name].where(**conditions(match["where"])), match["what"])
        old, comment = match[1], match[0][len(match[1]) :]
        lead = re.match(r"[(*|]*", old)
        return f"{lead[0] if lead else ''}{number:{match['form']}}{comment}"

    return QUOTED.sub(replace, text)


def conditions(text: str) -> dict[str, Value]:
    """Values by column, from text.

    Example:
        >>> conditions("estimator=biased, value=0.9")
        {'estimator': 'biased', 'value': 0.9}
    """
    pairs = (part.split("=") for part in text.split(",") if part.strip())
    return {key.strip(): parsed(value.strip()) for key, value in pairs}


def taken(table: Table, what: str) -> float:
    """A number from some records.

    Example:
        >>> table = Table.of([{"n": 1, "error": 0.25}, {"n": 2, "error": 0.5}])
        >>> taken(table, "max error"), taken(table, "count"), taken(table.where(n=1), "error")
        (0.5, 2, 0.25)
    """
    if what == "count":
        return len(table.records)
    kind, _, column = what.rpartition(" ")
    numbers = table.numbers(column)
    if kind == "max":
        return max(numbers)
    if kind == "min":
        return min(numbers)
    if kind == "largest":
        return max(abs(number) for number in numbers)
    if kind == "rate":
        sizes = torch.tensor(table.numbers("candidates"))
        return fitted_rate(sizes, torch.tensor(numbers))[0]
    return table.number(column)
