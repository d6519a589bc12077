"""Independent pieces of an experiment, computed on all cores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TypeVar

import torch

from bayescl_lab._cores import usable_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Apply a function to items on one thread per core, and yield the results in order.

    Tensor operations on tens of thousands of numbers gain nothing from several threads and lose
    much on busy cores. So each operation runs on one thread, and items run in parallel instead. The
    caller's number of threads is unchanged.

    Args:
        function: must not depend on other calls; each draw has its own generator.
        items: its arguments.

    Yields:
        Results, in the order of the items.

    Example:
        >>> list(in_parallel(lambda n: n * n, [1, 2, 3]))
        [1, 4, 9]
    """
    yield from _pool().map(function, items)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """The process's workers, always the same ones so that each reuses its memory."""
    # The initializer's setting is that of the worker's own thread.
    return ThreadPoolExecutor(usable_cores(), initializer=torch.set_num_threads, initargs=(1,))
