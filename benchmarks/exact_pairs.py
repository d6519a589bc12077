"""Two towers on made-up pairs: is the exact partner found, and are near neighbors of its class?

A pair is what its class and a part of its own make of it, seen by two random maps with noise. Two
towers learn 400 batches of 256 pairs with ``in_batch`` in both directions; the teacher is the
second tower's own embeddings, detached. On 1,000 unseen pairs, R@1 is the share of anchors whose
nearest candidate is their own partner; P@10 and P@40 are the shares of the nearest 10 and 40 that
are of the anchor's class.
"""

from __future__ import annotations

import torch
from harness import learn
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl

CLASSES, STEPS, BATCH, UNSEEN = 20, 400, 256, 1000
OWN, WIDTH = 16, 64
"""Coordinates of a class and of a pair's own part; and of what a tower sees and returns."""

Pairs = tuple[Tensor, Tensor, Tensor]


def made_up_pairs(seed: int) -> tuple[Pairs, Pairs]:
    """Make training and unseen pairs: labels, and what each tower sees."""
    generator = torch.Generator().manual_seed(seed)
    classes = 1.2 * torch.randn(CLASSES, OWN, generator=generator)
    maps = [torch.randn(2 * OWN, WIDTH, generator=generator) / (2 * OWN) ** 0.5 for _ in range(2)]

    def pairs(count: int) -> Pairs:
        labels = torch.randint(CLASSES, (count,), generator=generator)
        content = torch.cat([classes[labels], torch.randn(count, OWN, generator=generator)], dim=1)
        first, second = (
            torch.tanh(content @ each) + 0.3 * torch.randn(count, WIDTH, generator=generator)
            for each in maps
        )
        return labels, first, second

    return pairs(8000), pairs(UNSEEN)


def pair_scores(loss: bayescl.ContrastiveLoss, seed: int) -> dict[str, float]:
    """Train two towers, with the items as teacher if the loss has soft targets, and score them."""
    with torch.device("cpu"):
        (labels, first, second), (unseen, *views) = made_up_pairs(seed)
    torch.manual_seed(seed)
    towers = nn.ModuleList(
        nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)) for _ in range(2)
    )
    labels, first, second, unseen, *views = (
        each.to(torch.get_default_device()) for each in (labels, first, second, unseen, *views)
    )
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    for _ in range(STEPS):
        drawn = torch.randint(len(labels), (BATCH,))
        queries, items = towers[0](first[drawn]), towers[1](second[drawn])
        known = {"groups": labels[drawn]} if loss.needs_groups else {}
        if loss.positive_share != 1:
            known["teacher"] = items.detach()
        learn(loss.in_batch(queries, items, both_directions=True, **known), optimizer)
    with torch.no_grad():
        rows, columns = (
            F.normalize(tower(view), dim=1) for tower, view in zip(towers, views, strict=True)
        )
    nearest = (rows @ columns.T).topk(40, dim=1).indices
    same = (unseen[nearest] == unseen[:, None]).float()
    return {
        "r_1": float((nearest[:, 0] == torch.arange(UNSEEN)).float().mean()),
        "p_10": float(same[:, :10].mean()),
        "p_40": float(same.mean()),
    }
