"""Input that one process gets wrong: all must hear of it, and all go on together after."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import bayescl
from bayescl import Rows, distributed
from ranks.launch import Findings

LOSS = bayescl.InfoNCELoss(gather=True)
CHECKED = bayescl.InfoNCELoss(gather=True, check_finite=True)
LABELS = torch.arange(4)


def rows(count: int, dim: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.ones(count, dim, dtype=dtype)


def mask(anchors: int, columns: int) -> Tensor:
    return torch.ones(anchors, columns, dtype=torch.bool)


def runs_out_of_memory(odd: bool) -> None:
    with distributed.shared_refusals():
        if odd:
            raise MemoryError("out of memory")
    distributed.exchange({"call": "nothing"})


# Rank 1 is always the one that differs.
CASES: dict[str, Callable[[bool, int], object]] = {
    "an empty batch": lambda odd, _: LOSS(rows(0 if odd else 4), rows(0 if odd else 4)),
    "other dimensions": lambda odd, _: LOSS(rows(4, 5 if odd else 3), rows(4, 5 if odd else 3)),
    "another precision": lambda odd, _: LOSS.in_batch(
        rows(4, dtype=torch.float64 if odd else torch.float32), rows(4)
    ),
    "no gradient": lambda odd, _: LOSS.in_batch(rows(4), rows(4).requires_grad_(not odd)),
    "groups on one process": lambda odd, _: LOSS(rows(4), rows(4), groups=LABELS if odd else None),
    "views that do not fit": lambda odd, _: LOSS(rows(4), rows(3 if odd else 4)),
    "no tensor": lambda odd, _: LOSS([1.0] if odd else rows(4), rows(4)),
    "a NaN": lambda odd, _: CHECKED(rows(4) * (float("nan") if odd else 1), rows(4)),
    "a mask of its own columns": lambda odd, world: LOSS.in_batch(
        rows(4), rows(4), valid=mask(4, 4 if odd else 4 * world)
    ),
    "a mask for both directions": lambda odd, world: LOSS.in_batch(
        rows(4), rows(4), valid=mask(4, 4 * world) if odd else None, both_directions=True
    ),
    "another layout": lambda odd, _: (LOSS if odd else LOSS.in_batch)(rows(4), rows(4)),
    "one direction": lambda odd, _: LOSS.in_batch(rows(4), rows(4), both_directions=odd),
    "its own candidates": lambda odd, _: LOSS.sampled(
        rows(4), rows(4), torch.ones(4, 2, 3) if odd else rows(2)
    ),
    "the same candidates": lambda odd, _: LOSS.sampled(
        rows(4), rows(4), rows(2), gather_candidates=odd
    ),
    "logits that do not fit": lambda odd, _: LOSS.from_logits(torch.ones(3 if odd else 4), rows(4)),
    "no rows to gather": lambda odd, _: distributed.gather(rows(0 if odd else 2)),
    "a scalar to gather": lambda odd, _: distributed.gather(torch.ones(()) if odd else rows(2)),
    "another shape to gather": lambda odd, _: distributed.gather(rows(2, 4 if odd else 3)),
    "rows elsewhere": lambda odd, _: distributed.gather(rows(2).to("meta" if odd else "cpu")),
    "no memory": lambda odd, _: runs_out_of_memory(odd),
    "extra on one process": lambda odd, _: LOSS.in_batch(
        rows(4), rows(4), extra=rows(2) if odd else None
    ),
    "a teacher on one process": lambda odd, _: LOSS(
        rows(4), rows(4), teacher=rows(4) if odd else None
    ),
    "a teacher of other dimensions": lambda odd, _: LOSS(
        rows(4), rows(4), teacher=rows(4, 2 if odd else 3)
    ),
    "labels on one process": lambda odd, _: LOSS.in_batch(
        rows(4), rows(4), labels=LABELS if odd else None
    ),
    "a teacher of extra on one process": lambda odd, _: LOSS.in_batch(
        rows(4),
        rows(4),
        extra=Rows(rows(2), teacher=rows(2) if odd else None),
        teacher=rows(4),
    ),
    "log_q of extra on one process": lambda odd, _: LOSS.in_batch(
        rows(4),
        rows(4),
        extra=Rows(rows(2), log_q=torch.zeros(2) if odd else None),
        log_q=torch.zeros(4),
    ),
    "a margin without a teacher": lambda odd, _: LOSS(
        rows(4), rows(4), margin=bayescl.Margin(absolute=0.0, by_teacher=True) if odd else None
    ),
    "no margin": lambda odd, _: LOSS(rows(4), rows(4), margin=0.95 if odd else None),
}


def messages(rank: int, world_size: int) -> Findings:
    """What each call raised on this process, and how far a good call after it went."""
    found: Findings = {}
    for name, call in CASES.items():
        try:
            call(rank == 1, world_size)
            raised = "nothing"
        except (TypeError, ValueError, MemoryError) as error:
            raised = f"{type(error).__name__}: {error}"
        # Were ranks out of step, these would be another call's rows, or never come.
        after = distributed.gather(torch.tensor([rank]))
        found[name] = (raised, after.tolist() == list(range(world_size)))
    return found
