"""Random calls of every loss, and what must hold for each: run ``python -m fuzz`` for many.

:mod:`fuzz.calls` draws a call from a seed, :mod:`fuzz.damaged` one with a bad argument, and
:mod:`fuzz.claims` says what is wrong with the answer.
"""

import warnings

DAMAGED = 5
"""One call in so many has a bad argument."""


def violations(seed: int) -> list[str]:
    """What is wrong with the answer to one call; nearly all warnings are wrong, too."""
    from fuzz import claims, damaged

    kind = damaged if seed % DAMAGED == 0 else claims
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rightly in ("half of the anchors have", "no anchor has a", r"temp.*=\d", "labels have"):
            warnings.filterwarnings("ignore", rightly)
        return kind.violations(seed)
