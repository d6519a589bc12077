"""Whether a loss still finds the exact partner, and how many near neighbours are of its class.

    python benchmarks/exact_pairs.py

Two towers learn made-up pairs of 20 classes with ``in_batch``: 400 steps of 256 pairs. A pair is
what its class and a part of its own make of it, seen by two random maps with noise. On 1,000 unseen
pairs, R@1 is the share of anchors whose nearest candidate is their own partner; P@10 and P@40 are
the shares of the nearest 10 and 40 that are of the anchor's class.

Writes ``benchmarks/results/exact-pairs.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.runs.provenance import provenance

CLASSES, STEPS, BATCH, UNSEEN = 20, 400, 256, 1000
OWN, WIDTH = 16, 64
"""Coordinates of a class and of a pair's own part; and of what a tower sees and returns."""

Pairs = tuple[Tensor, Tensor, Tensor]
LOSSES: dict[str, Callable[[float], bayescl.ContrastiveLoss]] = {
    "InfoNCE": lambda t: bayescl.InfoNCELoss(temperature=t),
    **{
        f"latent classes, {aim}": lambda t, aim=aim: bayescl.LatentClassContrastiveLoss(
            num_classes=CLASSES, temperature=t, aim=aim
        )
        for aim in ("pairs", "both", "classes")
    },
    "oracle": lambda t: bayescl.OracleContrastiveLoss(temperature=t),
    "attracting oracle": lambda t: bayescl.AttractingOracleContrastiveLoss(temperature=t),
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


def scores(loss: bayescl.ContrastiveLoss, seed: int) -> dict[str, float]:
    """Train two towers and score them on unseen pairs."""
    (labels, first, second), (unseen, *views) = made_up_pairs(seed)
    torch.manual_seed(seed)
    towers = nn.ModuleList(
        nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, WIDTH)) for _ in range(2)
    )
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    for _ in range(STEPS):
        rows = torch.randint(len(labels), (BATCH,))
        groups = labels[rows] if loss.needs_groups else None
        value = loss.in_batch(towers[0](first[rows]), towers[1](second[rows]), groups=groups)
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
        "trust": float(getattr(loss, "trust", float("nan"))),
    }


def main(arguments: list[str] | None = None) -> None:
    """Train, score and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="from 1")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.05, 0.1, 0.25])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--attraction", type=float, default=1.0, help="of latent classes")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    origin, console = provenance(), Console()
    records: list[dict[str, Any]] = []
    for temperature in options.temperatures:
        for name in options.losses:
            each = []
            for seed in range(options.seeds):
                loss = LOSSES[name](temperature)
                if isinstance(loss, bayescl.LatentClassContrastiveLoss):
                    loss.attraction = options.attraction
                each.append(scores(loss, 1 + seed))
            record: dict[str, Any] = {"temperature": temperature, "loss": name}
            for figure in ("r_1", "p_10", "p_40"):
                values = [one[figure] for one in each]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                record[figure] = {"mean": statistics.mean(values), "spread": spread}
            if name.startswith("latent"):
                record["trust"] = statistics.mean(one["trust"] for one in each)
            records.append(record)
            figures = ", ".join(f"{key} {record[key]['mean']:.3f}" for key in ("r_1", "p_10"))
            console.print(f"t {temperature:g}, {name}: {figures}, trust {record.get('trust')}")
    file = options.results / "exact-pairs.json"
    content = {"seeds": options.seeds, "records": records, **origin}
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
