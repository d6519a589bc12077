"""Random calls of every loss, and what must hold for each: run ``python -m fuzz`` for many.

:mod:`fuzz.calls` draws a call from a seed, :mod:`fuzz.damaged` one with a bad argument, and
:mod:`fuzz.claims` says what is wrong with the answer.
"""
