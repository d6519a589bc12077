"""The cost of scoring against the candidates of all ranks, with gloo processes on one machine.

    python benchmarks/distributed_scaling.py --ranks 1 2 --batch 1024 --dim 128

Every rank has its own batch, so the number of candidates grows with the ranks. Each process uses
one thread; more ranks than cores say nothing about scaling.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from harness import time_side_by_side, write_result
from loss_speed import step
from torch import distributed as dist
from torch import multiprocessing

import bayescl


def measure(rank: int, ranks: int, store: str, batch: int, dim: int, rounds: int, out: str) -> None:
    """Time one step on every rank; rank 0 writes the seconds down."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks)
    generator = torch.Generator().manual_seed(rank)
    views = [torch.randn(batch, dim, generator=generator) for _ in range(2)]
    losses = {
        f"{name}, {kind} candidates": make(gather=gather)
        for name, make in (
            ("InfoNCE", bayescl.InfoNCELoss),
            ("Bayesian", partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.9)),
        )
        for kind, gather in (("own", False), ("all ranks'", True))
    }
    # Every rank draws the same order, so that ranks meet in the same collective.
    methods = {name: partial(step, loss, *views) for name, loss in losses.items()}
    measured = time_side_by_side(methods, rounds=rounds)
    if rank == 0:
        torch.save({name: one.seconds for name, one in measured.items()}, out)
    dist.destroy_process_group()


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch", type=int, default=1024, help="items per rank")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()

    body: list[dict[str, object]] = []
    for ranks in arguments.ranks:
        with tempfile.TemporaryDirectory() as folder:
            store, out = (Path(folder) / "store").as_uri(), str(Path(folder) / "seconds.pt")
            rest = (store, arguments.batch, arguments.dim, arguments.rounds, out)
            multiprocessing.spawn(measure, args=(ranks, *rest), nprocs=ranks)
            measured = torch.load(out, weights_only=True)
        for name, seconds in measured.items():
            low, median, high = (
                round(1e3 * time, 2)
                for time in statistics.quantiles(seconds, n=4, method="inclusive")
            )
            row: dict[str, object] = {
                "ranks": ranks,
                "loss": name,
                "batch_per_rank": arguments.batch,
                "dim": arguments.dim,
                "median_ms": median,
                "quartiles_ms": [low, high],
                "rounds": arguments.rounds,
            }
            body.append(row)
            print(row, flush=True)
    command = shlex.join(["python", "benchmarks/distributed_scaling.py", *sys.argv[1:]])
    path = write_result("distributed-scaling", command, {"measurements": body})
    print(f"written to {path}")


if __name__ == "__main__":
    main()
