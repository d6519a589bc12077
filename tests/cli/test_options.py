from __future__ import annotations

import pytest

from bayescl.cli._options import parse_options


def command(*, resume: bool = False, seeds: int = 4) -> int:
    """Do nothing.

    Args:
        resume: a switch.
        seeds: a number.
    """
    return 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--resume", True),
        ("--resume --seeds 3", True),
        ("--resume true", True),
        ("--resume false", False),
        ("--resume=false", False),
        ("", False),
    ],
)
def test_a_switch_may_be_given_with_or_without_its_value(words, expected):
    options = parse_options(command, "test", words.split())
    assert options is not None
    assert options["resume"] is expected
