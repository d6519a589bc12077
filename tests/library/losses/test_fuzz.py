"""Random calls of every loss against float64, and refusals of bad arguments.

``BAYESCL_CALLS=30000`` tries as many, as ``make fuzz`` does.
"""

import os
import warnings

import pytest
from fuzz import claims, damaged

CALLS = int(os.environ.get("BAYESCL_CALLS", "180"))


@pytest.mark.parametrize("first", range(0, CALLS, 30))
def test_random_calls_are_answered_rightly_or_refused_by_name(first):
    """One call in five has a bad argument."""
    problems = []
    with warnings.catch_warnings():
        for expected in (
            "half of the anchors have",
            "no anchor has a",
            r"temp.*=\d",
            "labels have",
        ):
            warnings.filterwarnings("ignore", expected)
        for seed in range(first, first + 30):
            kind = damaged if seed % 5 == 0 else claims
            problems += [f"seed {seed}: {problem}" for problem in kind.violations(seed)]
    assert not problems, "\n".join(problems)
