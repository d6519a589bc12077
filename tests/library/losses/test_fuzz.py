"""Random calls of every loss; ``make fuzz`` runs tens of thousands."""

import pytest
from fuzz import violations


@pytest.mark.parametrize("part", range(6))
def test_random_calls_are_answered_rightly_or_refused_by_name(part: int) -> None:
    problems = [
        f"seed {seed}: {problem}"
        for seed in range(30 * part, 30 * (part + 1))
        for problem in violations(seed)
    ]
    assert not problems, "\n".join(problems)
