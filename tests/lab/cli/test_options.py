"""From a command's signature to its options, and from words to values."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import yaml
from cyclopts import Parameter
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Words, at_least, between
from bayescl_lab.cli._app import COMMANDS, application
from bayescl_lab.cli._console import Bar
from bayescl_lab.cli._options import FLAT, Called


@dataclass(frozen=True)
class Inner:
    """Options of a dataclass.

    Attributes:
        epochs: passes over
            the ``data``.
        optimizer: what changes the weights.
        strength: how much; default: some.
    """

    epochs: Annotated[int, at_least(2)] = 3
    optimizer: Literal["adam", "sgd"] = "adam"
    strength: Annotated[float, between(0, 5)] | None = None


def command(
    run: str,
    *,
    compiled: bool = False,
    seeds: int = 4,
    k: Annotated[Count, Parameter(name=("-k", "--k"))] = 10,
    words: Words = ("a",),
    inner: Annotated[Inner, FLAT] = Inner(),
    called: Called,
    place: str | None = None,
) -> dict[str, Any] | None:
    """Do nothing.

    Args:
        run: the folder.
        compiled: a switch.
        seeds: a number.
        k: a letter.
        words: some words.
        inner: more.
        called: not an option.
        place: somewhere; default: here.
    """
    if called.print_config:
        return called.options
    calls.append(dict(locals()))
    return None


calls: list[dict[str, Any]] = []


@pytest.fixture
def installed(monkeypatch) -> Callable[[Callable[..., int]], None]:
    """Makes a function the command "test"."""

    def install(function: Callable[..., int]) -> None:
        monkeypatch.setitem(COMMANDS, "test", "Do nothing.")
        monkeypatch.setitem(sys.modules, "bayescl_lab.cli.test", SimpleNamespace(test=function))

    return install


@pytest.fixture
def parsed(bayescl, installed) -> Callable[[str], dict[str, Any]]:
    """The values that the command above gets for some words."""
    installed(command)

    def parse(words: str) -> dict[str, Any]:
        outcome = bayescl(f"test {words}")
        assert outcome.status == 0, outcome.err
        return calls.pop()

    return parse


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_the_place_that_raised_it(bayescl, installed):
    def warn() -> int:
        """Do nothing."""
        warnings.warn("careful\nnow", stacklevel=1)
        return 0

    installed(warn)
    outcome = bayescl("test")
    assert (outcome.status, outcome.err) == (0, "note: careful now\n")


def test_a_configuration_file_gives_values_that_are_not_typed(parsed):
    Path("mine.yaml").write_text(
        "seeds: 3\nwords: [x, y]\ncompiled: true\nplace: null\nepochs: 5\n"
    )
    values = parsed("folder --config mine.yaml")
    assert (values["seeds"], values["words"], values["compiled"]) == (3, ("x", "y"), True)
    assert (values["place"], values["inner"]) == (None, Inner(5))
    assert values["called"].typed == {"run"}
    typed = parsed("folder --seeds 7 --words x,y --words z --config mine.yaml")
    assert (typed["seeds"], typed["words"]) == (7, ("x", "y", "z"))
    assert typed["called"].typed == {"run", "seeds", "words"}


def test_a_configuration_file_may_be_utf_16(parsed):
    Path("mine.yaml").write_text("seeds: 3\n", encoding="utf-16")
    assert parsed("folder --config mine.yaml")["seeds"] == 3


def test_words_in_double_quotes_are_not_split_and_a_tilde_is_the_home_folder(parsed, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    values = parsed("""folder --words 'a,"b, c"' --place=~/t --words ~/kept""")
    assert (values["words"], values["place"]) == (("a", "b, c", "~/kept"), "/home/me/t")


def test_help_shows_what_is_known_of_every_option(parsed, bayescl):
    shown = " ".join(bayescl("test --help").out.replace("│", "").split())
    for words in (
        "RUN --run the folder. [required]",
        "--k -k a letter. [default: 10]",
        "--epochs passes over the data. (at least 2) [default: 3]",
        "--strength how much; default: some. (from 0 to 5)",
        "--place somewhere; default: here.",
        "--print-config",
    ):
        assert words in shown
    assert "--called" not in shown


def test_a_printed_configuration_is_one_to_come_back_with(parsed, bayescl):
    printed = bayescl("test folder --epochs 5 --words x,y --print-config").out
    assert yaml.safe_load(printed)["epochs"] == 5
    Path("mine.yaml").write_text(printed)
    values, expected = parsed("--config mine.yaml"), parsed("folder --epochs 5 --words x,y")
    del values["called"], expected["called"]
    assert values == expected


def test_the_overview_says_what_the_commands_say_of_themselves(bayescl):
    assert bayescl("").out == bayescl("--help").out
    assert "Usage: bayescl train" in bayescl("train").out
    app = application()
    for name, summary in COMMANDS.items():
        assert app[name].help.splitlines()[0] == summary


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("bayescl_lab.cli._console.time.monotonic", lambda: now[0])
    with Bar(60) as bar:
        for done in range(1, 61):
            now[0] += 1.0
            bar.tell(done, f"hard-seed{done // 30}")
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 5
    assert lines[0].startswith("hard-seed0: 11 of 60; about 0:00:")
