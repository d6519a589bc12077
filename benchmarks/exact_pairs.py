"""Whether a loss still finds the exact partner, and how many near neighbours are of its class.

    python benchmarks/exact_pairs.py

Two towers learn made-up pairs of 20 classes with ``in_batch``: 400 steps of 256 pairs. A pair is
what its class and a part of its own make of it, seen by two random maps with noise. On 1,000 unseen
pairs, R@1 is the share of anchors whose nearest candidate is their own partner; P@10 and P@40 are
the shares of the nearest 10 and 40 that are of the anchor's class.

Writes ``benchmarks/results/exact-pairs.json``.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from harness import RESULTS, options, write_json
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.compare.summary import mean_and_spread

CLASSES, STEPS, BATCH, UNSEEN = 20, 400, 256, 1000
OWN, WIDTH = 16, 64
"""Coordinates of a class and of a pair's own part; and of what a tower sees and returns."""

Pairs = tuple[Tensor, Tensor, Tensor]

LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "InfoNCE": bayescl.InfoNCELoss,
    "oracle": bayescl.OracleContrastiveLoss,
    "supervised": bayescl.SupervisedContrastiveLoss,
}


def made_up_pairs(seed: int) -> tuple[Pairs, Pairs]:
    """Training and unseen pairs: labels, and what each tower sees."""
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


def scores(name: str, temperature: float, seed: int) -> dict[str, float]:
    """Train two towers and score them on unseen pairs."""
    (labels, first, second), (unseen, *views) = made_up_pairs(seed)
    torch.manual_seed(seed)
    towers = nn.ModuleList(
        nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)) for _ in range(2)
    )
    loss = LOSSES[name](temperature=temperature)
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    for _ in range(STEPS):
        drawn = torch.randint(len(labels), (BATCH,))
        needed = [name for name in ("groups", "labels") if getattr(loss, f"needs_{name}")]
        known = dict.fromkeys(needed, labels[drawn])
        value = loss.in_batch(towers[0](first[drawn]), towers[1](second[drawn]), **known)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
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


def main() -> None:
    """Train, score and write; seeds are from 1, at least 2."""
    chosen = options(__doc__, seeds=3)
    records: list[dict[str, Any]] = []
    for temperature, name in product((0.05, 0.1, 0.25), LOSSES):
        runs = [scores(name, temperature, 1 + seed) for seed in range(chosen.seeds)]
        figures = {key: mean_and_spread([run[key] for run in runs]) for key in runs[0]}
        records.append({"temperature": temperature, "loss": name} | figures)
        print(records[-1], flush=True)
    write_json(RESULTS / "exact-pairs.json", {"seeds": chosen.seeds, "records": records})


if __name__ == "__main__":
    main()
