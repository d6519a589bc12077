"""The cost of scoring against the candidates of all ranks, with gloo processes on one machine.

    python benchmarks/distributed_scaling.py --ranks 1 2 --batch 1024 --dim 128

Every rank has its own batch, so the number of candidates grows with the ranks. Each process uses
one thread; more ranks than cores say nothing about scaling.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import command_line, time_side_by_side, write_result
from loss_speed import steps
from torch import distributed as dist
from torch import multiprocessing

import bayescl


def measure(rank: int, ranks: int, store: str, batch: int, dim: int, rounds: int, out: str) -> None:
    """Time one step on every rank; rank 0 writes the seconds down."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    generator = torch.Generator().manual_seed(rank)
    views = [torch.randn(batch, dim, generator=generator) for _ in range(2)]
    makers = {
        "InfoNCE": bayescl.InfoNCELoss,
        "Bayesian": partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.9),
    }
    # Every rank draws the same order, so that ranks meet in the same collective.
    methods = {
        f"{name}, {kind} candidates": partial(steps, make(gather=gather), [views])
        for name, make in makers.items()
        for kind, gather in (("own", False), ("all ranks'", True))
    }
    measured = time_side_by_side(methods, rounds=rounds)
    if rank == 0:
        torch.save({name: times.seconds for name, times in measured.items()}, out)
    dist.destroy_process_group()


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, default=1024, help="items per rank")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            store, out = (Path(folder) / "store").as_uri(), str(Path(folder) / "seconds.pt")
            rest = (store, options.batch, options.dim, options.rounds, out)
            multiprocessing.spawn(measure, args=(ranks, *rest), nprocs=ranks)
            measured = torch.load(out, weights_only=True)
        for name, seconds in measured.items():
            quartiles = statistics.quantiles(seconds, n=4, method="inclusive")
            low, median, high = (round(1e3 * time, 2) for time in quartiles)
            row = {
                "ranks": ranks,
                "loss": name,
                "batch_per_rank": options.batch,
                "dim": options.dim,
                "median_ms": median,
                "quartiles_ms": [low, high],
                "rounds": options.rounds,
            }
            rows.append(row)
            print(row, flush=True)
    path = write_result("distributed-scaling", command_line(), {"measurements": rows})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
