"""What benchmarks share: side-by-side timing, the command line, results and journals.

Every round of a timing runs each method once, so that drift affects all equally.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from bayescl_lab._downloads import data_folder
from bayescl_lab._files import write_atomically
from bayescl_lab.runs.provenance import git_commit, hardware, provenance, versions
from bayescl_lab.runs.result import Score

RESULTS = Path(__file__).parent / "results"
UNSHOWN = ("runs", "course")  # columns of single runs, which are for the file alone
Row = dict[str, Any]


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


def repeated(call: Callable[[], object], times: int) -> Callable[[], None]:
    """A function that calls another so often, and then waits until a GPU has finished."""

    def calls() -> None:
        for _ in range(times):
            call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return calls


def keep_freed_memory() -> None:
    """Bring the C library to keep freed blocks, as it does in a process that trains a network.

    Otherwise every step pays for fresh pages, one method more than the other.
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


def peak_mib() -> float:
    """Peak memory of this process in MiB."""
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def learn(loss: torch.Tensor, optimizer: torch.optim.Optimizer, schedule: Any = None) -> None:
    """Take one training step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if schedule is not None:
        schedule.step()


def means(runs: Iterable[Mapping[str, float]], names: Iterable[str] | None = None) -> Row:
    """Mean, spread and values of each score over the runs that have it."""
    runs = list(runs)
    names = dict.fromkeys(name for run in runs for name in run) if names is None else names
    return {name: Score.of([run[name] for run in runs if name in run]).stored() for name in names}


def options(description: str | None, *switches: str, **defaults: Any) -> argparse.Namespace:
    """Read the command line: values with defaults, of which a list takes several, and switches.

    Default words in a list or tuple are all that there are to choose from, of a tuple one.
    ``threads`` is applied, and ``until`` is when ``minutes`` have passed. ``clock`` is the wall's,
    or with the switch "cpu-time" the processor's.
    """
    about = (description or "").partition("\n")[0]
    form = argparse.ArgumentDefaultsHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    for name, default in defaults.items():
        word, several = f"--{name.replace('_', '-')}", isinstance(default, list)
        first = default[0] if isinstance(default, (list, tuple)) else default
        how: Row = {"nargs": "+", "default": default} if several else {"default": first}
        how["choices"] = default if first is not default and isinstance(first, str) else None
        parser.add_argument(word, type=type(first), **how)
    for name in switches:
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    if "threads" in defaults:
        torch.set_num_threads(chosen.threads)
    if "minutes" in defaults:
        chosen.until = time.monotonic() + 60 * chosen.minutes
    on_processor = vars(chosen).get("cpu_time", False)
    chosen.clock = time.process_time if on_processor else time.perf_counter
    chosen.clock_name = "CPU time" if on_processor else "wall time"
    return chosen


def publish(name: str, rows: Sequence[Row], *, write: bool = True, **body: Any) -> Path | None:
    """Print the rows of a result as a table, and write a dated file of it."""
    from rich.console import Console
    from rich.table import Table

    columns = dict.fromkeys(name for row in rows for name in row if name not in UNSHOWN)
    plain = {key: value for key, value in body.items() if not isinstance(value, (dict, list))}
    table = Table(*columns, title=", ".join(f"{key} {value}" for key, value in plain.items()))
    for row in rows:
        table.add_row(*(_shown(row.get(column, "")) for column in columns))
    console = Console()
    console.print(table)
    if not write:
        return None
    path = write_result(name, {**body, "measurements": list(rows)})
    console.print(f"written to {path}")
    return path


def _shown(value: Any) -> str:
    value = value["mean"] if isinstance(value, dict) and "mean" in value else value
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_result(name: str, body: Row) -> Path:
    """Write a dated result file with what produced it, and return its path."""
    return write_json(RESULTS / f"{date.today().isoformat()}-{name}.json", body)


def write_json(path: Path, body: Row) -> Path:
    """Write a result file with what produced it, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(provenance() | body, indent=1) + "\n")
    return path


def folder_with(file: str) -> Path:
    """The folder of a file of data: in ``$BAYESCL_DATA``, ``../shared/data`` or ``/usr/share``."""
    places = data_folder(), Path(__file__).parents[2] / "shared" / "data", Path("/usr/share")
    for path in (place / file for place in places):
        if path.is_file():
            return path.parent
    raise ValueError(f"there is no {file}: set BAYESCL_DATA to the folder that has it")


def papers_split(data: str) -> Row:
    """Options that load a data set in the split that papers use."""
    if data != "ml-100k":
        return {"data": data}
    folder = data_folder() / "ml-100k/author-split"
    return {"data": str(folder / "train.csv"), "test_data": str(folder / "test.csv")}


def tuned(score: Callable[..., Row], temperatures: Sequence[float], seeds: int) -> Row:
    """Choose a temperature by R@1 on validation with a seed of its own, and test seeds from 1."""
    tried = {each: score(each, 1000, "validation")["r_1"] for each in temperatures}
    best = max(tried, key=tried.__getitem__)
    runs = [score(best, 1 + seed, "test") for seed in range(seeds)]
    return {"temperature": best, "validation": tried, **means(runs)}


class Journal:
    """Finished runs in a file, a line each, so that a script goes on where it stopped.

    ``key`` says which run a line is of.
    """

    def __init__(self, path: Path, key: Callable[[Any], Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        self.path, self._key = path, key
        lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        self.lines = {text(key(line)): line for line in lines}

    @classmethod
    def of_cases(cls, path: Path, kind: Any) -> Journal:
        """A journal of runs with the fields of a dataclass as keys."""
        return cls(path, lambda line: {each.name: line[each.name] for each in fields(kind)})

    def __contains__(self, key: Any) -> bool:
        """Whether a run is finished."""
        return text(key) in self.lines

    def __getitem__(self, key: Any) -> Any:
        """The line of a run."""
        return self.lines[text(key)]

    def of(self, keys: Iterable[Any]) -> list[Any]:
        """The lines of those runs that are finished."""
        return [self[key] for key in keys if key in self]

    def add(self, line: Any) -> None:
        """Keep a finished run."""
        self.lines[text(self._key(line))] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def add_scores(self, line: Row) -> None:
        """Keep and print a finished run of some seconds, with what produced it."""
        origin = {"commit": git_commit() or "", "versions": versions(), "cpu": hardware()["cpu"]}
        self.add(line | origin)
        case = [value for name, value in line.items() if name not in ("scores", "seconds")]
        scores = " ".join(f"{name} {value:.3f}" for name, value in line["scores"].items())
        print(*case, scores, f"{line['seconds']:.0f} s", flush=True)


def by_seed(lines: Iterable[Row], about: Sequence[str]) -> dict[tuple[Any, ...], dict[int, Row]]:
    """Scores of runs by what they are of, and then by seed."""
    cells: dict[tuple[Any, ...], dict[int, Row]] = {}
    for line in lines:
        cells.setdefault(tuple(line[name] for name in about), {})[line["seed"]] = line["scores"]
    return cells


def differences(runs: Mapping[int, Row], base: Mapping[int, Row]) -> list[Row]:
    """Differences of the scores of two sets of runs, paired by seed."""
    shared = [(run, base[seed]) for seed, run in runs.items() if seed in base]
    return [{name: run[name] - of[name] for name in run if name in of} for run, of in shared]


def text(key: Any) -> str:
    """A key as a journal compares it."""
    return json.dumps(key, sort_keys=True)
