"""The cost of 20 million interactions: seconds and peak memory of each step, in its own process.

    python benchmarks/recsys_scale.py --threads 1

Random data of MovieLens-20M's shape (138,000 users, 27,000 items, 20 million pairs with long
tails) are written once: as one CSV, as Parquet in twenty parts, and as a CSV with text ids. They
are read and split; then ``bayescl train ranking`` trains an epoch on the Parquet parts, ranks all
items for all users and evaluates, and ``bayescl recommend`` makes a list for one user. No step may
need more than 4 GB.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
from harness import apart, options, publish, usage
from recsys import random_pairs
from rich.console import Console

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import load_interactions, read_interactions
from bayescl_lab.runs.result import Result

USERS, ITEMS, PAIRS = 138_000, 27_000, 20_000_000
PARTS = 20
MOST_GB = 4
FORMS = ("parts", "plain.csv", "text.csv")
TRAIN = "--epochs 1 --batch-size 256 --candidates 4096 --dim 64 --device cpu"


def write_data(folder: Path, pairs: int, users: int, items: int) -> None:
    """Pairs in random order, with ratings and times, in three forms."""
    rows, columns = random_pairs(users, items, pairs)
    generator = np.random.default_rng(0)
    table = pl.DataFrame(
        {
            "userId": rows + 1,
            "movieId": columns + 1,
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


def command(*words: str) -> None:
    """A command line, which runs in a process of its own."""
    subprocess.run([sys.executable, "-m", "bayescl_lab.cli", *words], check=True)


def _read(data: str) -> None:
    read_interactions(RankingData(data))


def measured(work: Callable[..., object], *words: str) -> dict[str, float]:
    """Seconds of a piece of work, and the peak memory; called in a process of its own."""
    whose = resource.RUSAGE_CHILDREN if work is command else resource.RUSAGE_SELF
    start, (before, _) = time.perf_counter(), usage(whose)
    work(*words)
    seconds, (processor, mib) = time.perf_counter() - start, usage(whose)
    return {
        "seconds": round(seconds, 1),
        "cpu_seconds": round(processor - before, 1),
        "peak_gb": round(mib * 2**20 / 10**9, 2),
    }


def measure(folder: Path, run: Path) -> list[dict[str, object]]:
    """Every step."""
    rows: list[dict[str, object]] = []

    def note(what: str, data: str, figures: dict[str, float]) -> None:
        rows.append({"what": what, "data": data, **figures})
        Console(stderr=True).print(rows[-1])

    note("importing the library alone", "", apart(measured, str, ""))
    steps = {"reading": _read, "reading, numbering, splitting": load_interactions}
    for (what, work), form in product(steps.items(), FORMS):
        note(what, form, apart(measured, work, str(folder / form)))
    place = ["--data", str(folder / "parts"), "--out", str(run)]
    trained = apart(measured, command, "train", "ranking", *place, *TRAIN.split())
    note("train ranking: all of it", "parts", trained)
    epoch = Result.read_file(run / "result.json").row.seconds
    note("train ranking: an epoch", "parts", {"seconds": round(epoch.mean, 1)})
    note("evaluate: all of it", "the run", apart(measured, command, "evaluate", str(run)))
    one_user = apart(measured, command, "recommend", str(run), "--user", "1")
    note("recommend: one user", "the run", one_user)
    return rows


def main() -> None:
    """Measure, print and write; with fewer ``--pairs`` only to try the script."""
    chosen = options(__doc__, threads=1, pairs=PAIRS)
    for name in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
        os.environ[name] = str(chosen.threads)  # for the processes that measure
    with tempfile.TemporaryDirectory(prefix="recsys-scale-") as place:
        folder = Path(place)
        apart(write_data, folder, chosen.pairs, USERS, ITEMS)
        rows = measure(folder, folder / "run")
    most = max(row.get("peak_gb", 0) for row in rows)
    publish(
        "recsys-scale",
        rows,
        write=chosen.pairs == PAIRS,
        sizes={"users": USERS, "items": ITEMS, "pairs": chosen.pairs},
        threads=chosen.threads,
        training=TRAIN,
        peak_gb=most,
        most_gb=MOST_GB,
    )


if __name__ == "__main__":
    main()
