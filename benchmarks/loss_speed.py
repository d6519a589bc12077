"""The time of a two-view loss's forward and backward pass on the CPU, side by side in one run.

python benchmarks/loss_speed.py --batch 256 1024 --dim 128 --threads 2
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from contenders import (
    BAYESIAN,
    COMPARISON,
    REFERENCE,
    TEMPERATURE,
    Loss,
    contenders,
    views_of_classes,
)
from harness import median_ratio, options, publish, time_side_by_side
from torch import Tensor

import bayescl

TEACHER = ", with teacher"
"""End of the name of a loss that is also measured without a teacher."""
_LARGE = 2000
"""Items above which a sixth of the rounds is enough, and all that anybody waits for."""


def steps_of(batch: int) -> int:
    """Steps timed together."""
    return max(8, 2048 // batch * (2 if batch < 128 else 1))


def with_and_without_teacher() -> dict[str, Loss]:
    """Return the losses that are measured with a teacher beside those without."""
    info_nce = bayescl.InfoNCELoss(temperature=TEMPERATURE)
    bayesian = bayescl.BayesianContrastiveLoss(**BAYESIAN)

    def taught(call: Callable[..., Tensor]) -> Loss:
        return lambda first, second: call(first, second, teacher=second.detach())

    return {
        "InfoNCE in_batch": info_nce.in_batch,
        f"InfoNCE{TEACHER}": taught(info_nce),
        f"InfoNCE in_batch{TEACHER}": taught(info_nce.in_batch),
        f"Bayesian{TEACHER}": taught(bayesian),
    }


def steps(loss: Callable[..., torch.Tensor], batches: list[list[torch.Tensor]]) -> None:
    """One forward and backward of each batch from fresh leaves."""
    for views in batches:
        loss(*(view.detach().requires_grad_() for view in views)).backward()


def main() -> None:
    """Measure, print and write."""
    chosen = options(
        __doc__,
        "cpu-time",
        batch=[64, 128, 256, 1024, 4096],
        dim=128,
        threads=torch.get_num_threads(),
        rounds=20,
    )
    rows: list[dict[str, Any]] = []
    for batch in chosen.batch:
        count = steps_of(batch)
        batches = [views_of_classes(batch, chosen.dim, seed) for seed in range(count)]
        losses = contenders(batch) | with_and_without_teacher()
        methods = {name: partial(steps, loss, batches) for name, loss in losses.items()}
        rounds = chosen.rounds if batch <= _LARGE else max(3, chosen.rounds // 6)
        measured = time_side_by_side(methods, rounds=rounds, clock=chosen.clock)
        for name, times in measured.items():
            median, low, high = (
                round(1e3 * time / count, 3) for time in (times.median, *times.quartiles)
            )
            row = {
                "loss": name,
                "batch": batch,
                "dim": chosen.dim,
                "median_ms": median,
                "quartiles_ms": [low, high],
                "ratio_to_cross_entropy": round(median_ratio(times, measured[REFERENCE]), 3),
                "rounds": rounds,
                "steps_per_round": count,
                "threads": chosen.threads,
                "clock": chosen.clock_name,
            }
            if COMPARISON in measured:
                faster = median_ratio(measured[COMPARISON], times)
                row["times_faster_than_comparison"] = round(faster, 2)
            if name.endswith(TEACHER):
                without = measured[name.removesuffix(TEACHER)]
                row["ratio_to_without_teacher"] = round(median_ratio(times, without), 3)
            rows.append(row)
    publish("loss-speed", rows)


if __name__ == "__main__":
    main()
