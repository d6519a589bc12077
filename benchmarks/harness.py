"""Side-by-side timing: every round runs each method once, so that drift affects all equally."""

from __future__ import annotations

import json
import random
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bayescl_lab.runs.provenance import git_commit, hardware, versions

RESULTS = Path(__file__).parent / "results"


@dataclass
class Measurement:
    """The times of one method, in seconds."""

    name: str
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median time."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Lower and upper quartile."""
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high


def time_side_by_side(
    methods: dict[str, Callable[[], object]],
    *,
    rounds: int,
    warmup: int = 2,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measurement]:
    """Time each method once a round, in an order drawn anew every round.

    Rounds of ``warmup`` are not counted. The clock ``time.process_time`` counts the processor only.
    """
    keep_freed_memory()
    measured = {name: Measurement(name) for name in methods}
    order = random.Random(0)
    for number in range(warmup + rounds):
        for name in order.sample(list(methods), len(methods)):
            start = clock()
            methods[name]()
            elapsed = clock() - start
            if number >= warmup:
                measured[name].seconds.append(elapsed)
    return measured


def keep_freed_memory() -> None:
    """Bring the C library to keep freed blocks, as it does in a process that trains a network.

    It gives blocks back to the system that are larger than any that was freed before; then every
    step pays for fresh pages, one method more than the other.
    """
    block = bytearray(2**25 - 2**16)
    del block


def median_ratio(one: Measurement, other: Measurement) -> float:
    """Median over rounds of one method's time as a multiple of the other's."""
    return statistics.median(a / b for a, b in zip(one.seconds, other.seconds, strict=True))


def apart(run: Callable[..., Any], *values: Any) -> Any:
    """What a run in a new process of its own returns."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *values).result()


def command_line() -> str:
    """The command that is running, as a page shows it."""
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def write_result(name: str, command: str, body: dict[str, object]) -> Path:
    """Write a dated result file with what produced it, and return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{date.today().isoformat()}-{name}.json"
    head = {
        "command": command,
        "commit": git_commit(),
        "hardware": hardware(),
        "versions": versions(),
    }
    path.write_text(json.dumps(head | body, indent=1) + "\n")
    return path
