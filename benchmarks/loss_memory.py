"""The memory of one forward and backward pass of a two-view loss, each in a separate process.

    python benchmarks/loss_memory.py --batch 1024 4096 --dim 128

The figure is the growth of the process's peak resident memory after small warm-up steps: the memory
of the step without the embeddings, their gradients, the libraries and a loss's own state.
"""

from __future__ import annotations

import argparse
import resource
from statistics import median
from typing import Any

import torch
from contenders import contenders, views_of_classes
from harness import apart, command_line, write_result

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


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for batch in options.batch:
        reference = 0.0
        for name in contenders(batch):
            repeats = range(options.repeats)
            sizes = sorted(apart(extra_megabytes, name, batch, options.dim) for _ in repeats)
            reference = reference or median(sizes)  # the reference comes first
            row = {
                "loss": name,
                "batch": batch,
                "dim": options.dim,
                "extra_mb": [round(size, 2) for size in sizes],
                "median_mb": round(median(sizes), 2),
                "ratio_to_cross_entropy": round(median(sizes) / reference, 4),
            }
            rows.append(row)
            print(row, flush=True)
    print(f"written to {write_result('loss-memory', command_line(), {'measurements': rows})}")


if __name__ == "__main__":
    main()
