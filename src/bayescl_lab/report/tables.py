"""Tables and figures over seeds as text, for Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of text; ``**`` around a cell makes it bold, ``*`` italic.

    Attributes:
        head: titles of the columns.
        rows: one cell per column.
        title: a sentence above it.
        note: a sentence below it.
        numeric: whether all columns but the first hold numbers, which are aligned to the right.

    Example:
        >>> print(Table(["loss", "k-NN"], [["InfoNCE", "93.4"]]).markdown())
        | loss | k-NN |
        | --- | --: |
        | InfoNCE | 93.4 |
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""
    numeric: bool = True

    def markdown(self) -> str:
        """Head and rows as Markdown."""
        rule = ["---"] + ["--:" if self.numeric else "---"] * (len(self.head) - 1)
        lines = (self.head, rule, *self.rows)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def mean_text(entry: Mapping[str, Any], form: str = ".1f", *, scale: float = 1.0) -> str:
    """Mean and spread over seeds; only the mean for a single seed.

    Args:
        entry: with ``mean`` and ``spread``.
        form: format of the mean; the spread's is the same without a sign.
        scale: 100 for percent.

    Example:
        >>> mean_text({"mean": 0.123, "spread": 0.04}, "+.1f", scale=100)
        '+12.3 ± 4.0'
    """
    mean = f"{scale * entry['mean']:{form}}"
    if float(mean) == 0:  # a rounded -0.0 has no sign of its own
        mean = f"{0.0:{form}}"
    spread = entry["spread"]
    return mean if spread is None else f"{mean} ± {scale * spread:{form.removeprefix('+')}}"


def bold(text: str, certain: bool | None) -> str:
    """A difference, in bold if it is at least two standard errors from 0."""
    return f"**{text}**" if certain else text


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "seed"), counted(2, "seed")
        ('1 seed', '2 seeds')
    """
    return f"{number} {noun}{'s' * (number != 1)}"


def origin(result: Mapping[str, Any], file: str) -> str:
    """The command, hardware and versions behind a benchmark's result, in two paragraphs."""
    hardware, versions = result["hardware"], result["versions"]
    packages = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"`{result['command']}` ([figures](results/{file}))\n\n{hardware['cpu']}, "
        f"{hardware['cores']} cores; {packages}; commit {result['commit'][:12]}"
    )
