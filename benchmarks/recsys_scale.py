"""The cost of 20 million interactions: seconds and peak memory of each step, in its own process.

    python benchmarks/recsys_scale.py --threads 1

Random data of MovieLens-20M's shape (138,000 users, 27,000 items, 20 million pairs with long
tails) are written once to ``--folder``: as one CSV, as Parquet in twenty parts, and as a CSV with
text ids. They are read and split; then ``bayescl train ranking`` trains an epoch on the Parquet
parts, ranks all items for all users and evaluates, and ``bayescl recommend`` makes a list for one
user. No step may need more than 4 GB. Both wall-clock and processor seconds are reported; they
differ if the machine has other work. Writes a dated JSON file to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl
from harness import write_result
from rich.console import Console
from rich.table import Table

from bayescl_lab.ranking.datasets import load_interactions, read_interactions

USERS, ITEMS, PAIRS = 138_000, 27_000, 20_000_000
PARTS = 20
MOST_BYTES = 4 * 10**9
FORMS = ("parts", "plain.csv", "text.csv")
TRAIN = "--epochs 1 --batch-size 16384 --candidates shared --count 64 --dim 64 --device cpu"


def write_data(folder: Path, pairs: int, users: int, items: int) -> None:
    """Pairs in random order, with ratings and times, in three forms."""
    generator = np.random.default_rng(0)
    found = np.empty(0, dtype=np.int64)
    while len(found) < pairs:
        rows = (users * generator.random(pairs) ** 1.8).astype(np.int64)
        columns = (items * generator.random(pairs) ** 2.5).astype(np.int64)
        found = np.unique(np.concatenate([found, rows * items + columns]))
    generator.shuffle(found)
    found = found[:pairs]
    table = pl.DataFrame(
        {
            "userId": found // items + 1,
            "movieId": found % items + 1,
            "rating": generator.integers(1, 11, pairs) / 2,
            "timestamp": generator.integers(800_000_000, 1_500_000_000, pairs),
        }
    )
    table.write_csv(folder / "plain.csv")
    (folder / "parts").mkdir()
    for number, part in enumerate(table.iter_slices(-(-pairs // PARTS))):
        part.write_parquet(folder / "parts" / f"part-{number:02}.parquet")
    table.with_columns(
        userId=pl.format("user-{}", "userId"), movieId=pl.format("film-{}", "movieId")
    ).write_csv(folder / "text.csv")


def read(path: str) -> None:
    """The rows of a table, with their ids as the file has them."""
    read_interactions(path)


def read_and_split(path: str) -> None:
    """A training and a test part with numbered users and items."""
    load_interactions(path)


def measured(work: Callable[[str], None], path: str) -> dict[str, float]:
    """Seconds of a piece of work, and the peak memory of the process that does nothing else."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (work, path))


def _measure(work: Callable[[str], None], path: str) -> dict[str, float]:
    start, before = time.perf_counter(), time.process_time()
    work(path)
    figures = _figures(time.perf_counter() - start, resource.RUSAGE_SELF)
    return {**figures, "cpu_seconds": round(time.process_time() - before, 1)}


def command(*words: str) -> dict[str, float]:
    """Seconds and peak memory of a command line, which runs in a process of its own."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_command, (words,))


def _command(words: tuple[str, ...]) -> dict[str, float]:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "bayescl_lab.cli", *words], check=True)
    return _figures(time.perf_counter() - start, resource.RUSAGE_CHILDREN)


def _figures(seconds: float, whose: int) -> dict[str, float]:
    used = resource.getrusage(whose)
    unit = 1 if sys.platform == "darwin" else 2**10
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_gb": round(used.ru_maxrss * unit / 10**9, 2),
    }


def measure(folder: Path, run: Path) -> list[dict[str, object]]:
    """Every step."""
    rows: list[dict[str, object]] = []

    def note(what: str, data: str, figures: dict[str, float]) -> None:
        rows.append({"what": what, "data": data, **figures})
        Console(stderr=True).print(rows[-1])

    note("importing the library alone", "", measured(str, ""))
    for form in FORMS:
        note("reading", form, measured(read, str(folder / form)))
    for form in FORMS:
        note("reading, numbering, splitting", form, measured(read_and_split, str(folder / form)))
    place = ["--data", str(folder / "parts"), "--out", str(run)]
    note("train ranking: all of it", "parts", command("train", "ranking", *place, *TRAIN.split()))
    result = json.loads((run / "result.json").read_text())
    for what, name in (
        ("train ranking: an epoch", "seconds_per_epoch"),
        ("train ranking: full ranking and metrics", "evaluation_seconds"),
    ):
        note(what, "parts", {"seconds": round(result[name], 1)})
    note("recommend: one user", "the run", command("recommend", str(run), "--user", "1"))
    return rows


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for the data; default: a temporary one")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="fewer, to try the script")
    arguments = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ[name] = str(arguments.threads)  # for the processes that measure
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="recsys-scale-"))
    try:
        if not (folder / "text.csv").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            with get_context("spawn").Pool(1) as pool:
                pool.apply(write_data, (folder, arguments.pairs, USERS, ITEMS))
        with tempfile.TemporaryDirectory() as place:
            body = measure(folder, Path(place, "run"))
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)
    table = Table("what", "data", "s", "CPU s", "peak GB", title=f"{arguments.threads} threads")
    for row in body:
        figures = (str(row.get(name, "")) for name in ("seconds", "cpu_seconds", "peak_gb"))
        table.add_row(row["what"], row["data"], *figures)
    console = Console()
    console.print(table)
    most = max(row.get("peak_gb", 0) for row in body)
    console.print(f"at most {most:.2f} GB; the bar is {MOST_BYTES / 1e9:g} GB")
    line = f"python benchmarks/recsys_scale.py --threads {arguments.threads}"
    sizes = {"users": USERS, "items": ITEMS, "pairs": arguments.pairs}
    content = {
        "sizes": sizes,
        "threads": arguments.threads,
        "training": TRAIN,
        "peak_gb": most,
        "measurements": body,
    }
    if arguments.pairs == PAIRS:
        console.print(f"written to {write_result('recsys-scale', line, content)}")


if __name__ == "__main__":
    main()
