from __future__ import annotations

import pytest

from bayescl.cli._options import parse_options


def command(*, compiled: bool = False, seeds: int = 4) -> int:
    """Do nothing.

    Args:
        compiled: a switch.
        seeds: a number.
    """
    return 0


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
    options = parse_options(command, "test", words.split())
    assert options is not None
    assert options["compiled"] is expected
