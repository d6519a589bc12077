"""Input that one process gets wrong: all must hear of it, and all go on together after."""

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


# Calls by the message of their refusal; rank 1 is always the one that differs.
CASES: dict[str, Callable[[bool, int], object]] = {
    "view_1 must not be empty, got shape [0, 3]": lambda odd, _: LOSS(
        rows(0 if odd else 4), rows(0 if odd else 4)
    ),
    "the shape of a row must be the same on every process, got [3] on rank 0": lambda odd, _: LOSS(
        rows(4, 5 if odd else 3), rows(4, 5 if odd else 3)
    ),
    "dtype must be the same on every process, got float32 on rank 0": lambda odd, _: LOSS.in_batch(
        rows(4, dtype=torch.float64 if odd else torch.float32), rows(4)
    ),
    "requires_grad must be the same on every process, got True on rank 0": lambda odd, _: (
        LOSS.in_batch(rows(4), rows(4).requires_grad_(not odd))
    ),
    "the shape of groups per row must be the same on every process, got": lambda odd, _: LOSS(
        rows(4), rows(4), groups=LABELS if odd else None
    ),
    "view_2 must have shape [4, 3], got [3, 3]": lambda odd, _: LOSS(
        rows(4), rows(3 if odd else 4)
    ),
    "view_1 must be a tensor, got list": lambda odd, _: LOSS([1.0] if odd else rows(4), rows(4)),
    "view_1 must be finite, got 12 NaN or infinite entries": lambda odd, _: CHECKED(
        rows(4) * (float("nan") if odd else 1), rows(4)
    ),
    "shared columns on rank 1 (the candidates of all processes": lambda odd, world: LOSS.in_batch(
        rows(4), rows(4), valid=mask(4, 4 if odd else 4 * world)
    ),
    "with both_directions and gather, valid cannot have": lambda odd, world: LOSS.in_batch(
        rows(4), rows(4), valid=mask(4, 4 * world) if odd else None, both_directions=True
    ),
    "the layout must be the same on every process, got in_batch on rank 0": lambda odd, _: (
        LOSS if odd else LOSS.in_batch
    )(rows(4), rows(4)),
    "the number of directions must be the same on every process, got 1 on rank 0": lambda odd, _: (
        LOSS.in_batch(rows(4), rows(4), both_directions=odd)
    ),
    "the layout must be the same on every process, got sampled on rank 0": lambda odd, _: (
        LOSS.sampled(rows(4), rows(4), torch.ones(4, 2, 3) if odd else rows(2))
    ),
    "the layout must be the same on every process, got sampled with": lambda odd, _: LOSS.sampled(
        rows(4), rows(4), rows(2), gather_candidates=odd
    ),
    "unlabeled must have shape [3, candidates], got [4, 3]": lambda odd, _: LOSS.from_logits(
        torch.ones(3 if odd else 4), rows(4)
    ),
    "every process must have at least one row, got 2 on rank 0": lambda odd, _: distributed.gather(
        rows(0 if odd else 2)
    ),
    "rows must have at least one axis, got a scalar": lambda odd, _: distributed.gather(
        torch.ones(()) if odd else rows(2)
    ),
    "the shape of a row must be the same on every process": lambda odd, _: distributed.gather(
        rows(2, 4 if odd else 3)
    ),
    "the kind of device must be the same on every process, got cpu on rank 0": lambda odd, _: (
        distributed.gather(rows(2).to("meta" if odd else "cpu"))
    ),
    "check_finite must be the same on every process, got False on rank 0": lambda odd, _: (
        CHECKED if odd else LOSS
    )(rows(4), rows(4)),
    "the class of the loss must be the same on every process, got InfoNCELoss on": lambda odd, _: (
        bayescl.BayesianContrastiveLoss(gather=True) if odd else LOSS
    )(rows(4), rows(4)),
    "alpha must be the same on every process, got 0.9 on rank 0": lambda odd, _: (
        bayescl.BayesianContrastiveLoss(alpha=0.8 if odd else 0.9, gather=True).from_logits(
            torch.ones(4), rows(4)
        )
    ),
    **{
        f"{name} must be the same on every process": lambda odd, _, name=name, value=value: (
            bayescl.InfoNCELoss(gather=True, **({name: value} if odd else {}))(rows(4), rows(4))
        )
        for name, value in {
            "reduction": "sum",
            "positive_share": 0.2,
            "normalize": False,
            "teacher_temperature": 0.1,
        }.items()
    },
    "margin must be the same on every process, got None on rank 0": lambda odd, _: LOSS(
        rows(4), rows(4), margin=bayescl.Margin(absolute=0.1) if odd else None
    ),
    "target must have": lambda odd, _: LOSS.in_batch(
        rows(4), rows(4), target=torch.zeros(4, 5 if odd else 4)
    ),
    "out of memory": lambda odd, _: runs_out_of_memory(odd),
    "whether extra is given must be the same on every process": lambda odd, _: LOSS.in_batch(
        rows(4), rows(4), extra=rows(2) if odd else None
    ),
    "the shape of teacher per row must be the same on every process": lambda odd, _: LOSS(
        rows(4), rows(4), teacher=rows(4) if odd else None
    ),
    "the shape of teacher per row must be the same on every": lambda odd, _: LOSS(
        rows(4), rows(4), teacher=rows(4, 2 if odd else 3)
    ),
    "the shape of labels per row must be the same on every process": lambda odd, _: LOSS.in_batch(
        rows(4), rows(4), labels=LABELS if odd else None
    ),
    "whether candidate block 1 has teacher must be the same on every": lambda odd, _: LOSS.in_batch(
        rows(4),
        rows(4),
        extra=Rows(rows(2), teacher=rows(2) if odd else None),
        teacher=rows(4),
    ),
    "whether candidate block 1 has log_q must be the same on": lambda odd, _: LOSS.in_batch(
        rows(4),
        rows(4),
        extra=Rows(rows(2), log_q=torch.zeros(2) if odd else None),
        log_q=torch.zeros(4),
    ),
    "Margin(by_teacher=True) needs a teacher for anchors and positives": lambda odd, _: LOSS(
        rows(4), rows(4), margin=bayescl.Margin(absolute=0.0, by_teacher=True) if odd else None
    ),
    "margin must be a Margin, got float": lambda odd, _: LOSS(
        rows(4), rows(4), margin=0.95 if odd else None
    ),
}


def messages(rank: int, world_size: int) -> Findings:
    """What each call raised on this process, and how far a good call after it went."""
    found: Findings = {}
    for message, call in CASES.items():
        try:
            call(rank == 1, world_size)
            raised = "nothing"
        except (TypeError, ValueError, MemoryError) as error:
            raised = f"{type(error).__name__}: {error}"
        # Were ranks out of step, these would be another call's rows, or never come.
        after = distributed.gather(torch.tensor([rank]))
        found[message] = (raised, after.tolist() == list(range(world_size)))
    return found
