"""Latent classes on every process against one process with the whole batch, and each on its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bayescl import LatentClassContrastiveLoss
from ranks.equality import BATCHES, DIM, EXTRA, distance, parts
from ranks.launch import Findings

STEPS = 8
LAYOUTS = {
    "two views": "dense",
    "pairs": "chunked",
    "both directions": "chunked",
    "sampled": "dense",
}
"""Layouts, and the engine that each is tried on."""


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


def call(loss: LatentClassContrastiveLoss, layout: str, rows: list[Tensor]) -> Tensor:
    first, second, extra = rows
    if layout == "two views":
        return loss(first, second)
    if layout == "sampled":
        return loss.sampled(first, second, extra)
    return loss.in_batch(first, second, extra=extra, both_directions=layout == "both directions")


def tensors(loss: LatentClassContrastiveLoss) -> dict[str, Tensor]:
    state = loss.memory.get_extra_state()
    return {name: value for name, value in state.items() if isinstance(value, Tensor)}


def summed(value: Tensor) -> Tensor:
    total = value.detach().clone()
    dist.all_reduce(total)
    return total


def gathered(rank: int, world_size: int) -> Findings:
    """How far values, gradients and what is remembered are from those of one process."""
    batches, extras = BATCHES[world_size], EXTRA[world_size]
    mine = parts(batches, extras)[rank]
    found: Findings = {}
    for layout, engine in LAYOUTS.items():
        one = make(engine=engine, chunk_size=3)
        own = make(engine=engine, chunk_size=3, gather=True)
        value_apart = gradient_apart = 0.0
        for step in range(STEPS):
            if step == STEPS - 1:
                one.eval(), own.eval()
            whole = drawn(step, sum(batches), sum(batches), sum(extras))
            rows = [
                leaf.detach()[places].requires_grad_()
                for leaf, places in zip(whole, (mine.rows, mine.rows, mine.extra), strict=True)
            ]
            expected, value = call(one, layout, whole), call(own, layout, rows)
            expected.backward()
            value.backward()
            total = summed(value) / world_size
            value_apart = max(value_apart, distance(total, expected.detach()))
            for leaf, part, places in zip(
                whole, rows, (mine.rows, mine.rows, mine.extra), strict=True
            ):
                if leaf.grad is not None:
                    difference = part.grad / world_size - leaf.grad[places]
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
        dist.broadcast(first["items"], src=0)
        found["gathered" if gather else "alone"] = {
            "fits": fits,
            "as without it": all(
                torch.equal(tensor, ours[name]) for name, tensor in tensors(expected).items()
            ),
            "the first one's": torch.equal(ours["items"], first["items"]),
            "gradients are finite": all(
                bool(parameter.grad.isfinite().all()) for parameter in model.parameters()
            ),
        }
    return found
