"""From a command's signature to its options, and from words to values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml

from bayescl.losses import InfoNCELoss
from bayescl_lab._fields import Count, at_least
from bayescl_lab.cli._options import OneEach, parse_options
from bayescl_lab.runs.losses import LOSSES, LossOption, LossRow


@dataclass(frozen=True)
class Inner:
    """Options of a dataclass.

    Attributes:
        epochs: passes over the data.
        optimizer: what changes the weights.
        nested: never an option.
    """

    epochs: Count = 3
    optimizer: Literal["adam", "sgd"] = "adam"
    nested: Count | Mapping[str, float] | None = None


Given = Annotated[
    Mapping[str, float], OneEach(lambda: [LossOption("alpha", float, "a quality", ("bayesian",))])
]


def command(
    run: str,
    *,
    compiled: bool = False,
    seeds: int = 4,
    k: Count = 10,
    inner: Inner,
    given: Given,
    place: str | None = None,
) -> int:
    """Do nothing.

    Args:
        run: the folder.
        compiled: a switch.
        seeds: a number.
        k: a letter.
        inner: more.
        given: hyper-parameters.
        place: somewhere; default: here.
    """
    return 0


def parsed(words: str) -> dict[str, Any]:
    options = parse_options(command, "test", words.split())
    assert options is not None
    return options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--compiled", True),
        ("--compiled --seeds 3", True),
        ("--compiled true", True),
        ("--compiled false", False),
        ("--compiled=false", False),
        ("", False),
    ],
)
def test_a_switch_may_be_given_with_or_without_its_value(words, expected):
    assert parsed(f"folder {words}")["compiled"] is expected
    assert parsed(f"{words} --seeds 3 folder")["compiled"] is expected


def read_as(hint: Any, value: Any) -> Any:
    """What becomes of a value in a configuration file, or of a typed word."""

    def own(*, x: Any) -> int:
        """Do nothing."""
        return 0

    own.__annotations__ = {"x": hint}
    if isinstance(value, str):
        options = parse_options(own, "test", [f"--x={value}"])
    else:
        Path("x.yaml").write_text(yaml.safe_dump({"x": value}))
        options = parse_options(own, "test", ["--config", "x.yaml"])
    assert options is not None
    return options["x"]


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (int, "3", 3),
        (float, "3", 3.0),
        (float, "1e-3", 0.001),
        (float | None, "null", None),
        (bool, "True", True),
        (str, 2, "2"),
        (str, "null", "null"),
        (tuple[str, ...], "a, b,", ("a", "b")),
        (tuple[int, ...], [3, 4], (3, 4)),
        (dict[str, float], "{a: 1}", {"a": 1}),
    ],
)
def test_what_is_typed_becomes_what_the_hint_wants(monkeypatch, tmp_path, hint, text, value):
    monkeypatch.chdir(tmp_path)
    read = read_as(hint, text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (int, "1.5"),
        (int, "x"),
        (int, None),
        (int, True),
        (float, "nan"),
        (float, "much"),
        (bool, "maybe"),
        (str, date(2024, 1, 2)),
        (tuple[int, ...], "1,x"),
        (dict[str, float], "3"),
        (dict[str, dict[str, float]], "{hard: 3}"),
        (Annotated[int, at_least(2)], "1"),
    ],
)
def test_what_cannot_become_that_is_named(monkeypatch, tmp_path, hint, text):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"^x must be"):
        read_as(hint, text)


def test_a_dataclass_comes_built_and_a_mapping_with_what_was_typed():
    options = parsed("folder --epochs 5 --optimizer=sgd --alpha 0.9")
    assert options["inner"] == Inner(5, "sgd")
    assert options["given"] == {"alpha": 0.9}
    assert parsed("folder")["given"] == {}


def test_a_partial_leaves_out_what_the_command_has_itself():
    def own(*, epochs: str = "few", inner: partial[Inner]) -> int:
        """Do nothing."""
        return 0

    # The hints of a function within a function are resolved here.
    own.__annotations__ = {"epochs": str, "inner": partial[Inner]}
    options = parse_options(own, "test", ["--epochs", "many", "--optimizer", "sgd"])
    assert options is not None
    assert options["epochs"] == "many"
    assert options["inner"](epochs=7) == Inner(7, "sgd")


def test_a_letter_takes_one_hyphen_or_two():
    assert parsed("folder -k 3") == parsed("folder --k 3") == parsed("--k=3 folder")


def test_values_that_begin_with_a_hyphen_are_values():
    with pytest.raises(ValueError, match="k must be a whole number of at least 1, got -3"):
        parsed("folder -k -3")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: run"),
        ("folder other", "unrecognized arguments: other"),
        ("folder --epoch 3", r"unrecognized arguments: --epoch \(is it --epochs\?\)"),
        ("folder --seeds", "--seeds needs a value"),
        ("folder --seeds --compiled", "--seeds needs a value"),
        ("folder --epochs 0", "epochs must be a whole number of at least 1, got 0"),
        ("folder --optimizer lars", "optimizer must be one of adam, sgd, got 'lars'"),
        ("folder --alpha high", "alpha must be a number, got high"),
    ],
)
def test_words_that_make_no_sense_are_named(words, message):
    with pytest.raises(ValueError, match=message):
        parsed(words)


def test_help_shows_what_is_known_of_every_option(capsys):
    assert parse_options(command, "test", ["--help"]) is None
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "usage: bayescl test RUN [options]",
        "--compiled a switch",
        "--seeds N a number (default: 4)",
        "-k N a letter (default: 10)",
        "--optimizer adam|sgd what changes the weights (default: adam)",
        "--alpha X a quality",
        "--place TEXT somewhere; default: here",
        "--print-config",
    ):
        assert words in shown
    assert "nested" not in shown


def test_a_printed_configuration_is_one_to_come_back_with(capsys, tmp_path: Path):
    assert parse_options(command, "test", ["folder", "--epochs", "5", "--print-config"]) is None
    file = tmp_path / "mine.yaml"
    file.write_text(capsys.readouterr().out)
    assert yaml.safe_load(file.read_text())["epochs"] == 5
    assert parsed(f"--config {file}") == parsed("folder --epochs 5")


class SharpLoss(InfoNCELoss):
    """A loss of its own.

    Args:
        sharpness: how sharp the loss is.
    """

    hyperparameters = ("sharpness",)

    def __init__(self, *, sharpness: int = 3, temperature: float = 0.5, **options: Any) -> None:
        super().__init__(temperature=temperature, **options)
        self.sharpness = sharpness


@pytest.mark.parametrize("words", ["train images", "compare images", "train ranking"])
def test_a_hyperparameter_of_a_new_loss_is_on_every_command_line(bayescl, monkeypatch, words):
    monkeypatch.setitem(LOSSES, "sharp", LossRow("sharp", "#000000", SharpLoss, SharpLoss))
    shown = " ".join(bayescl(f"{words} --help").out.split())
    assert "--sharpness N how sharp the loss is (sharp)" in shown
    assert yaml.safe_load(bayescl(f"{words} --sharpness 5 --print-config").out)["sharpness"] == 5
    assert "sharpness must be a whole number, got 1.5" in bayescl(f"{words} --sharpness 1.5").err
