"""What the benchmarks of recommenders share: random interactions, options and tables of results."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from harness import Measurement, write_result
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from bayescl_lab.ranking.interactions import Interactions

MOVIELENS = (943, 1_682, 80_000)
GOWALLA = (29_858, 40_981, 810_128)
"""Users, items and pairs in training of well-known data sets."""


def random_pairs(users: int, items: int, pairs: int, seed: int = 0) -> NDArray[np.int64]:
    """Rows and columns with the long tails of real data: shares of pairs fall as powers."""
    generator = np.random.default_rng(seed)
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < pairs:
        rows = (users * generator.random(2 * pairs) ** 1.8).astype(np.int64)
        columns = (items * generator.random(2 * pairs) ** 2.5).astype(np.int64)
        keys = np.unique(np.concatenate([keys, rows * items + columns]))
    return np.stack(np.divmod(generator.permutation(keys)[:pairs], items))


def random_interactions(users: int, items: int, pairs: int) -> Interactions:
    """The same as interactions."""
    return Interactions.from_pairs(
        *random_pairs(users, items, pairs), user_ids=users, item_ids=items
    )


def fit(module: Any, batches: object, epochs: int, *callbacks: Any) -> None:
    """Train on the CPU and write nothing."""
    from lightning.pytorch import Trainer  # takes memory that other benchmarks would measure

    from bayescl_lab.runs.loop import quiet_lightning

    with quiet_lightning():
        Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=list(callbacks),
        ).fit(module, batches)


def seconds(times: Measurement, **ratio: float) -> dict[str, float]:
    """The columns of a result that say how long something took."""
    fastest, rounds = min(times.seconds), len(times.seconds)
    columns = {"median_s": times.median, "fastest_s": fastest, **ratio}
    return {name: round(value, 4) for name, value in columns.items()} | {"rounds": rounds}


def options(description: str, *switches: str, **counts: int) -> argparse.Namespace:
    """Read the command line: whole numbers with defaults, and switches; ``threads`` is applied."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, default in counts.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in switches:
        parser.add_argument(f"--{name}", action="store_true")
    chosen = parser.parse_args()
    if "threads" in counts:
        torch.set_num_threads(chosen.threads)
    return chosen


def publish(name: str, rows: Sequence[dict[str, Any]], *, write: bool = True, **body: Any) -> None:
    """Print the rows of a result as a table, and write a dated file of it."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = Table(*columns, title=", ".join(f"{key} {value}" for key, value in body.items()))
    for row in rows:
        values = (row.get(column, "") for column in columns)
        table.add_row(*(str(v["mean"] if isinstance(v, dict) else v) for v in values))
    console = Console()
    console.print(table)
    if write:
        command = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
        path = write_result(name, command, {**body, "measurements": list(rows)})
        console.print(f"written to {path}")
