"""Many seeds, one after the other."""

from __future__ import annotations

import warnings

from fuzz import claims, damaged

DAMAGED = 5
"""One call in so many has a bad argument."""


def violations(seed: int) -> list[str]:
    """What is wrong with the answer to one call; warnings are wrong, too."""
    kind = damaged if seed % DAMAGED == 0 else claims
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return kind.violations(seed)
