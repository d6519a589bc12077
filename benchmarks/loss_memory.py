"""The memory of one forward and backward pass of a two-view loss, each in a separate process.

    python benchmarks/loss_memory.py --batch 1024 4096 --dim 128

The figure is the growth of the process's peak resident memory after small warm-up steps: the memory
of the step without the embeddings, their gradients, and the libraries.
"""

from __future__ import annotations

from statistics import median
from typing import Any

import torch
from contenders import contenders, views_of_classes
from harness import apart, options, peak_mib, publish

SMALL_STEPS = 2


def extra_megabytes(name: str, batch: int, dim: int) -> float:
    """Peak memory that a step adds in this process."""
    loss = contenders()[name]
    for seed in range(SMALL_STEPS):
        loss(*(view.requires_grad_() for view in views_of_classes(64, dim, seed))).backward()
    views = [view.requires_grad_() for view in views_of_classes(batch, dim, SMALL_STEPS)]
    for view in views:
        view.grad = torch.ones_like(view)
    before = peak_mib()
    loss(*views).backward()
    return peak_mib() - before


def main() -> None:
    """Measure, print and write."""
    chosen = options(__doc__, batch=[1024, 4096], dim=128, repeats=3)
    rows: list[dict[str, Any]] = []
    for batch in chosen.batch:
        reference = 0.0
        for name in contenders(batch):
            repeats = range(chosen.repeats)
            sizes = sorted(apart(extra_megabytes, name, batch, chosen.dim) for _ in repeats)
            reference = reference or median(sizes)  # the reference comes first
            row = {
                "loss": name,
                "batch": batch,
                "dim": chosen.dim,
                "extra_mb": [round(size, 2) for size in sizes],
                "median_mb": round(median(sizes), 2),
                "ratio_to_cross_entropy": round(median(sizes) / reference, 4),
            }
            rows.append(row)
    publish("loss-memory", rows)


if __name__ == "__main__":
    main()
