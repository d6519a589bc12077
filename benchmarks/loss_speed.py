"""The time of a two-view loss's forward and backward pass on the CPU, side by side in one run.

    python benchmarks/loss_speed.py --batch 256 1024 --dim 128 --threads 2

Writes a dated JSON file to ``benchmarks/results`` and prints the same as a table.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from contenders import COMPARISON, REFERENCE, contenders, views_of_classes
from harness import command_line, median_ratio, time_side_by_side, write_result
from rich.console import Console
from rich.table import Table

_LARGE = 2000
"""Items above which a sixth of the rounds is enough, and all that anybody waits for."""


def steps_of(batch: int) -> int:
    """Steps timed together: the latent-class loss fits its mixtures in one of them."""
    return max(8, 2048 // batch * (2 if batch < 128 else 1))


def steps(loss: Callable[..., torch.Tensor], batches: list[list[torch.Tensor]]) -> None:
    """One forward and backward of each batch from fresh leaves."""
    for views in batches:
        loss(*(view.detach().requires_grad_() for view in views)).backward()


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 128, 256, 1024, 4096])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cpu-time", action="store_true", help="time of the CPU, not of the clock")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.process_time if options.cpu_time else time.perf_counter
    table = Table("loss", "batch", "median ms", "quartiles ms", f"x {REFERENCE}")
    rows: list[dict[str, Any]] = []
    for batch in options.batch:
        count = steps_of(batch)
        batches = [views_of_classes(batch, options.dim, seed) for seed in range(count)]
        methods = {name: partial(steps, loss, batches) for name, loss in contenders(batch).items()}
        rounds = options.rounds if batch <= _LARGE else max(3, options.rounds // 6)
        measured = time_side_by_side(methods, rounds=rounds, clock=clock)
        for name, times in measured.items():
            milliseconds = [1e3 * time / count for time in (times.median, *times.quartiles)]
            ratio = median_ratio(times, measured[REFERENCE])
            row = {
                "loss": name,
                "batch": batch,
                "dim": options.dim,
                "median_ms": round(milliseconds[0], 3),
                "quartiles_ms": [round(quartile, 3) for quartile in milliseconds[1:]],
                "ratio_to_cross_entropy": round(ratio, 3),
                "rounds": rounds,
                "steps_per_round": count,
                "threads": options.threads,
                "clock": "CPU time" if options.cpu_time else "wall time",
            }
            if COMPARISON in measured:
                faster = median_ratio(measured[COMPARISON], times)
                row["times_faster_than_comparison"] = round(faster, 2)
            rows.append(row)
            median, low, high = (f"{value:.2f}" for value in milliseconds)
            table.add_row(name, str(batch), median, f"{low} - {high}", f"{ratio:.2f}")
    console = Console()
    console.print(table)
    body = {"measurements": rows}
    console.print(f"written to {write_result('loss-speed', command_line(), body)}")


if __name__ == "__main__":
    main()
