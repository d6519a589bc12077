"""Many cases in one test, and rows for them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    """Normal rows that depend on their seed alone."""
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def each(
    names: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for each case, like ``pytest.mark.parametrize``, but as one test.

    An error names its case. To run a case alone is not possible: use it where that is not needed.

    Args:
        names: the arguments that a case gives.
        values: the cases: values, or tuples of values if there are several names.
    """
    keys = (names,) if isinstance(names, str) else names
    cases = [
        dict(zip(keys, [value] if isinstance(names, str) else value, strict=True))
        for value in values
    ]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def of_each(**fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**fixtures, **case)
                except Exception as error:
                    raise AssertionError(f"in the case {case}: {error}") from error

        wanted = inspect.signature(test)
        others = [one for name, one in wanted.parameters.items() if name not in keys]
        of_each.__signature__ = wanted.replace(parameters=others)  # type: ignore[attr-defined]
        return of_each

    return decorate
