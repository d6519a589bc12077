"""Command lines of the pages parse, and defaults in help texts are those of the settings."""

import re
import shlex
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from bayescl_lab.cli import train
from bayescl_lab.cli._app import COMMANDS, SECOND_WORDS, application
from bayescl_lab.runs.losses import RankingLossSettings
from tests.docs.test_pages import PAGES, blocks, name_of

DOCS = Path(__file__).parents[2] / "docs"


def command_lines(page: Path) -> list[str]:
    """Command lines in the blocks and sentences of a page."""
    shown = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    lines = re.findall(r"^(?:\w+=\S+ )*bayescl (.+)$", shown, re.MULTILINE)
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [
        re.sub(r"\s+#.*| &$| \.\.\.", "", line)
        for line in (*lines, *re.findall(r"`bayescl ([a-z][^`]+)`", text))
    ]


def refusal(line: str) -> str | None:
    """Return the error about an unknown option or choice, or None. Values are not checked."""
    words = shlex.split(re.sub(r"--(config \S+|print-config)", "", line))
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    second = SECOND_WORDS[words[0]] if words[0] in ("compare", "data", "train") else words
    if not set(words[1:2]) <= {*second}:
        return f"there is no command {' '.join(words[:2])}"
    if not any(word.startswith("-") for word in words):
        return None  # only named
    try:
        application(words).parse_args(words, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        unknown = re.search("Unknown|Choose from|[Uu]nrecognized|must be one of", str(error))
        return str(error) if unknown else None
    return None


@pytest.mark.parametrize("page", [page for page in PAGES if command_lines(page)], ids=name_of)
def test_every_command_line_of_a_page_is_one_that_the_program_takes(page):
    refused = {line: why for line in command_lines(page) if (why := refusal(line))}
    assert not refused


@pytest.mark.parametrize("name", ["ranking.md", "serving.md", "quickstart/recommenders.md"])
def test_every_option_in_the_sentences_of_a_recommenders_page_exists(name):
    commands = ["train ranking", "train images", "compare ranking"]
    commands += ["recommend run", "evaluate run", "embed run"]
    text = (DOCS / name).read_text(encoding="utf-8")
    for option in sorted(set(re.findall(r"`(--[a-z][^`]*)`", text))):
        assert None in [refusal(f"{command} {option}") for command in commands], option


def test_defaults_in_the_help_of_training_a_recommender_are_those_of_its_settings():
    text = " ".join(str(train.ranking.__doc__).split())
    hard, beta = (
        RankingLossSettings("hard").resolved(),
        RankingLossSettings("bayesian").resolved()["beta"],
    )
    assert (
        f"Default temperature: {hard['temperature']:g}. Default beta: {beta:g}. Default "
        f"concentration: {hard['concentration']:g}."
    ) in text
