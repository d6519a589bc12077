"""Docstrings, comments, messages and pages avoid constructions that are hard to read."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

FILES = sorted(
    file
    for pattern in (
        *("src/**/*.py", "lab/src/**/*.py", "lab/src/**/*.jinja", "reproduction/*.py"),
        *("reproduction/*.md", "docs/**/*.md", "README.md", "CONTRIBUTING.md"),
    )
    for file in ROOT.glob(pattern)
)

STYLE_LEFT_COLUMN = (
    "how far it is trusted",
    "is known of no row",
    "is None is known",
    "the mean is then a weighted one",
    "what is known of",
    "is it said where",
    "the candidates of all of them",
    "are not looked at",
    "have no names",
    "by what float32 rounds",
    "how far a run",
    "in its midst",
    "competing losses under one interface",
    "weighs hard negatives up",
    "is lost among their members",
    "order in which kernels add",
    "waits? for the device",
    "give me those",
    "from the floors below",
    r"its refusal\b",
)
"""Sentences that the style quotes as examples to avoid."""

ODD = (
    r"\bbefell\b",
    r"\bunless given\b",
    r"\bone another\b",
    r"\bnobody\b",
    r"\bsomebody\b",
    r"\bwhose\b",
    r"\b(?:is|are) told\b",
    r"\bthe (?:former|latter)\b",
    r"\bsays who\b",
    r"\bbelieves? in\b",
    r"\bwhatever (?:the|its)\b",
    r"\"\"\"What\b",
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b)",
    r"\b(?:a|every|each|another) (?:room|house)\b",
)
"""Frequent constructions that a reader has to read twice."""


@pytest.mark.parametrize("pattern", [*STYLE_LEFT_COLUMN, *ODD])
def test_no_text_has_an_odd_construction(pattern):
    odd = re.compile(pattern, re.IGNORECASE)
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in FILES
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if odd.search(line)
    ]
    assert not found, "\n".join(found)
