"""The memory of one forward and backward pass of a two-view loss, each in a separate process.

    python benchmarks/loss_memory.py --batch 1024 4096 --dim 128

The figure is the growth of the process's peak resident memory after small warm-up steps: the memory
of the step without the embeddings, their gradients, the libraries and a loss's own state.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys

import torch
from contenders import contenders, views_of_classes
from harness import write_result

SMALL_STEPS = 20
"""Enough to fill the latent-class loss's memory and to fit to it."""


def peak_megabytes() -> float:
    """Peak resident memory of this process so far (Linux counts in kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def extra_megabytes(name: str, batch: int, dim: int) -> float:
    """Peak memory that a step adds in this process."""
    loss = contenders()[name]

    for seed in range(SMALL_STEPS):
        loss(*(view.requires_grad_() for view in views_of_classes(64, dim, seed))).backward()
    views = [view.requires_grad_() for view in views_of_classes(batch, dim, SMALL_STEPS)]
    for view in views:
        view.grad = torch.ones_like(view)
    before = peak_megabytes()
    loss(*views).backward()
    return peak_megabytes() - before


def measure_apart(name: str, batch: int, dim: int) -> float:
    """The same in a fresh process."""
    command = [sys.executable, __file__, "--child", name, "--batch", str(batch), "--dim", str(dim)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(output))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        found = extra_megabytes(arguments.child, arguments.batch[0], arguments.dim)
        sys.stdout.write(json.dumps(found))
        return

    body: list[dict[str, object]] = []
    for batch in arguments.batch:
        reference = 0.0
        for name in contenders(batch):
            found = sorted(
                measure_apart(name, batch, arguments.dim) for _ in range(arguments.repeats)
            )
            median = found[len(found) // 2]
            reference = reference or median  # the reference comes first
            row: dict[str, object] = {
                "loss": name,
                "batch": batch,
                "dim": arguments.dim,
                "extra_mb": [round(size, 2) for size in found],
                "median_mb": round(median, 2),
                "ratio_to_cross_entropy": round(median / reference, 4),
            }
            body.append(row)
            print(row, flush=True)
    command = shlex.join(["python", "benchmarks/loss_memory.py", *sys.argv[1:]])
    print(f"written to {write_result('loss-memory', command, {'measurements': body})}")


if __name__ == "__main__":
    main()
