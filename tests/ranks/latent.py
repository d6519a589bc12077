"""Latent classes on every process against one process with the whole batch, and each on its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bayescl import LatentClassContrastiveLoss
from ranks.equality import BATCHES, DIM, EXTRA, distance, parts, summed
from ranks.launch import Findings

STEPS = 8
LAYOUTS: dict[str, dict[str, Any]] = {
    "two views": {"engine": "reference"},
    "pairs": {"engine": "blocked"},
    "both directions": {"engine": "blocked", "aim": "classes"},
    "sampled": {"engine": "reference"},
    "two views, labels": {"engine": "blocked"},
    "both directions, labels": {"engine": "reference"},
    "sampled, labels": {"engine": "blocked", "aim": "classes"},
}
"""Layouts, and the settings that each is tried with. The last process alone knows labels."""


def make(**settings: Any) -> LatentClassContrastiveLoss:
    return LatentClassContrastiveLoss(num_classes=2, memory_size=32, refit_every=2, **settings)


def drawn(step: int, *counts: int) -> list[Tensor]:
    """Views of items of two classes; row by row of the same item."""
    generator = torch.Generator().manual_seed(step)

    def noise() -> Tensor:
        return torch.randn(max(counts), DIM, generator=generator)

    labels = torch.randint(0, 2, (max(counts),), generator=generator)
    items = 3 * torch.eye(DIM)[labels] + 0.6 * noise()
    return [(items + 0.2 * noise())[:count].requires_grad_() for count in counts]


def call(
    loss: LatentClassContrastiveLoss, layout: str, rows: list[Tensor], labels: list[Tensor] | None
) -> Tensor:
    first, second, extra = rows
    of_rows, of_extra = (None, None) if labels is None else labels
    if layout.startswith("two views"):
        return loss(first, second, labels=of_rows)
    if layout.startswith("sampled"):
        return loss.sampled(first, second, extra, labels=of_rows, candidate_labels=of_extra)
    known = {"labels": of_rows, "extra_labels": of_extra}
    return loss.in_batch(first, second, extra=extra, both_directions="both" in layout, **known)


def labels_of(step: int, *counts: int, first: tuple[int, ...]) -> list[Tensor]:
    """The labels of every other row that is drawn, but those before the last process's."""
    generator = torch.Generator().manual_seed(step)
    labels = torch.randint(0, 2, (max(counts),), generator=generator)
    labels[::2] = -1
    every = [labels[:count].clone() for count in counts]
    for some, start in zip(every, first, strict=True):
        some[:start] = -1
    return every


def tensors(loss: LatentClassContrastiveLoss) -> dict[str, Tensor]:
    state = loss.memory.get_extra_state()
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def gathered(rank: int, world_size: int) -> Findings:
    """How far values, gradients and what is remembered are from those of one process."""
    batches, extras = BATCHES[world_size], EXTRA[world_size]
    mine = parts(batches, extras)[rank]
    found: Findings = {}
    for layout, chosen in LAYOUTS.items():
        one, own = (make(chunk_size=3, gather=gather, **chosen) for gather in (False, True))
        value_apart = gradient_apart = 0.0
        for step in range(STEPS):
            if step == STEPS - 1:
                one.eval(), own.eval()
            whole = drawn(step, sum(batches), sum(batches), sum(extras))
            places = (mine.rows, mine.rows, mine.extra)
            rows = [x.detach()[at].requires_grad_() for x, at in zip(whole, places, strict=True)]
            labels = own_labels = None
            if "labels" in layout:
                before = sum(batches[:-1]), sum(extras[:-1])
                labels = labels_of(step, sum(batches), sum(extras), first=before)
                if rank == world_size - 1:  # the others pass none
                    own_labels = [labels[0][mine.rows], labels[1][mine.extra]]
            expected, value = call(one, layout, whole, labels), call(own, layout, rows, own_labels)
            expected.backward()
            value.backward()
            apart = distance(summed(value) / world_size, expected.detach())
            value_apart = max(value_apart, apart)
            for leaf, part, own_rows in zip(whole, rows, places, strict=True):
                if leaf.grad is not None:
                    difference = part.grad / world_size - leaf.grad[own_rows]
                    scale = leaf.grad.abs().max()
                    gradient_apart = max(gradient_apart, float(difference.abs().max() / scale))
        ours, theirs = tensors(own), tensors(one)
        first = {name: tensor.clone() for name, tensor in ours.items()}
        for tensor in first.values():
            dist.broadcast(tensor, src=0)
        found[layout] = {
            "value": value_apart,
            "gradient": gradient_apart,
            "memory": max(distance(ours[name], theirs[name]) for name in theirs),
            "trust": own.trust,
            "calls": own.memory.calls == one.memory.calls == STEPS - 1,
            # Agreement is worked out by each process, all else is the first one's.
            "same everywhere": all(
                torch.equal(ours[name], first[name]) for name in first if name != "agreement"
            ),
        }
    return found


class Model(nn.Module):
    """An encoder whose running statistics data parallel training sends around, with its loss."""

    def __init__(self, gather: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.encoder = nn.Sequential(nn.Linear(DIM, DIM), nn.BatchNorm1d(DIM))
        self.loss = make(gather=gather)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.loss(*self.encoder(torch.cat([first, second])).chunk(2))


def data_parallel(rank: int, world_size: int) -> Findings:
    """Whether memories stay each process's own, or the same, under DistributedDataParallel."""
    found: Findings = {}
    for gather in (False, True):
        model, expected = Model(gather), make()
        wrapped = DistributedDataParallel(model)
        kept: list[Tensor] = []
        model.loss.register_forward_pre_hook(lambda _, views, kept=kept: kept.extend(views))
        fits = 0
        for step in range(STEPS):
            # Unequal batches: without gathering, processes come to their first fit apart.
            count = 4 + 6 * rank
            kept.clear()
            wrapped(*drawn(100 * rank + step, count, count)).backward()
            if not gather:
                expected(*(view.detach() for view in kept))
            fits += model.loss.memory.classes is not None
        ours = tensors(model.loss)
        first = {name: tensor.clone() for name, tensor in ours.items()}
        dist.broadcast(first["buffer"], src=0)
        found["gathered" if gather else "alone"] = {
            "fits": fits,
            "as without it": all(
                torch.equal(tensor, ours[name]) for name, tensor in tensors(expected).items()
            ),
            "the first one's": torch.equal(ours["buffer"], first["buffer"]),
            "gradients are finite": all(
                bool(parameter.grad.isfinite().all()) for parameter in model.parameters()
            ),
        }
    return found
