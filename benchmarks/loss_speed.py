"""The time of a two-view loss's forward and backward pass on the CPU, side by side in one run.

    python benchmarks/loss_speed.py --batch 256 1024 --dim 128 --threads 2

Writes a dated JSON file to ``benchmarks/results`` and prints the same as a table.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from contenders import COMPARISON, REFERENCE, contenders, views_of_classes
from harness import median_ratio, time_side_by_side, write_result
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
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    clock = time.process_time if arguments.cpu_time else time.perf_counter

    console, body = Console(), []
    for batch in arguments.batch:
        count = steps_of(batch)
        batches = [views_of_classes(batch, arguments.dim, seed) for seed in range(count)]
        methods = {name: partial(steps, loss, batches) for name, loss in contenders(batch).items()}
        rounds = arguments.rounds if batch <= _LARGE else max(3, arguments.rounds // 6)
        measured = time_side_by_side(methods, rounds=rounds, clock=clock)
        table = Table(
            "loss",
            "median ms",
            "quartiles ms",
            "x " + REFERENCE,
            title=f"2 x {batch} embeddings of {arguments.dim}, {arguments.threads} threads",
        )
        for name, one in measured.items():
            low, high = one.quartiles
            ratio = median_ratio(one, measured[REFERENCE])
            row = {
                "loss": name,
                "batch": batch,
                "dim": arguments.dim,
                "median_ms": round(one.median * 1e3 / count, 3),
                "quartiles_ms": [round(each * 1e3 / count, 3) for each in (low, high)],
                "ratio_to_cross_entropy": round(ratio, 3),
                "rounds": rounds,
                "steps_per_round": count,
                "threads": arguments.threads,
                "clock": "CPU time" if arguments.cpu_time else "wall time",
            }
            if COMPARISON in measured:
                faster = median_ratio(measured[COMPARISON], one)
                row["times_faster_than_comparison"] = round(faster, 2)
            body.append(row)
            table.add_row(
                name,
                f"{one.median * 1e3 / count:.2f}",
                f"{low * 1e3 / count:.2f} - {high * 1e3 / count:.2f}",
                f"{ratio:.2f}",
            )
        console.print(table)
    command = shlex.join(["python", "benchmarks/loss_speed.py", *sys.argv[1:]])
    console.print(f"written to {write_result('loss-speed', command, {'measurements': body})}")


if __name__ == "__main__":
    main()
