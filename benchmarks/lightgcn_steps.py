"""LightGCN by users and by pairs: quality after equal CPU seconds, and seconds per epoch.

    BAYESCL_DATA=data python benchmarks/lightgcn_steps.py --data ml-1m --seconds 60

Every step propagates all embeddings once. By users, a step trains some users with all their pairs,
as ``bayescl train ranking`` does; by pairs, it trains some pairs, as earlier versions did, where
the other items of the user do not count as candidates either. The loss is InfoNCE. A short trial
measures the seconds per step, and each way then trains as many steps as fit into ``--seconds`` of
one thread, with a learning rate that falls to 0, and is evaluated on the validation split.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from harness import keep_freed_memory, learn, means, options, papers_split, publish
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR

from bayescl import InfoNCELoss
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.encoders import LightGCN
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking

Batch = tuple[Tensor, Tensor, Tensor]
"""Users, the items of all their pairs, and the place of each pair's user."""

TRIAL = 5  # steps
BATCHES: dict[str, list[int | None]] = {"users": [None, 256, 512, 1024], "pairs": [4096, 16384]}


def batches(train: Interactions, way: str, size: int | None, seed: int) -> Iterator[Batch]:
    """Batches of all epochs."""
    if way == "users":
        by_users = UserBatches(train, size, seed)
        while True:
            yield from map(tuple, by_users)  # type: ignore[misc]
            by_users.set_epoch(by_users.epoch + 1)
    pairs = torch.stack([*map(torch.from_numpy, train.pairs())])
    while True:
        for users, items in pairs[:, torch.randperm(pairs.shape[1])].split(size or 1, dim=1):
            some, anchor_of = users.unique(return_inverse=True)
            yield some, items, anchor_of


def steps_per_epoch(train: Interactions, way: str, size: int | None) -> int:
    """The number of batches that hold every pair once."""
    if way == "users":
        return len(UserBatches(train, size, 0))
    return -(-train.num_interactions // (size or 1))


def trained(
    parts: RankingParts, chosen: Any, way: str, size: int | None, seed: int, steps: int
) -> tuple[LightGCN, float]:
    """Train some steps; return the model and the CPU seconds per step."""
    train = parts.train
    torch.manual_seed(seed)
    known = torch.from_numpy(train.matrix.toarray() > 0)
    model = LightGCN(train, chosen.dim, layers=chosen.layers)
    loss = InfoNCELoss(temperature=chosen.temperature)
    optimizer = torch.optim.Adam(model.parameters(), lr=chosen.lr, fused=True)
    schedule = CosineAnnealingLR(optimizer, steps)
    start = time.process_time()
    for users, items, anchor_of in islice(batches(train, way, size, seed), steps):
        anchors, rows = model.embed(users)
        value = loss.sampled(anchors, items, rows, anchor_of=anchor_of, valid=~known[users])
        learn(value, optimizer, schedule)
    return model, (time.process_time() - start) / steps


def main() -> None:
    """Measure, print and write."""
    chosen = options(
        __doc__,
        data="ml-1m",
        seconds=60.0,
        seeds=[0, 1],
        dim=128,
        layers=2,
        lr=0.02,
        temperature=0.15,
        threads=1,
    )
    keep_freed_memory()
    parts = load_interactions(**papers_split(chosen.data), evaluate_on="validation")
    rows = []
    for way, size in [(way, size) for way, sizes in BATCHES.items() for size in sizes]:
        of_epoch = steps_per_epoch(parts.train, way, size)
        _, seconds = trained(parts, chosen, way, size, 0, TRIAL)
        steps = round(chosen.seconds / seconds)
        metrics = []
        for seed in chosen.seeds:
            model, seconds = trained(parts, chosen, way, size, seed, steps)
            metrics.append(evaluate_ranking(model.scorer(), parts).metrics)
        figures = means(metrics, ("ndcg@20", "recall@20"))
        own = {"epochs": round(steps / of_epoch, 1), "cpu_s": round(steps * seconds, 1)}
        cost = {"step_ms": round(1e3 * seconds, 1), "epoch_s": round(of_epoch * seconds, 2)}
        rows.append({"by": way, "batch": size or "default", **cost, **own, **figures})
        print(rows[-1], flush=True)
    names = ("data", "seconds", "seeds", "dim", "layers", "lr", "temperature", "threads")
    publish(
        f"lightgcn-steps-{chosen.data}", rows, **{name: getattr(chosen, name) for name in names}
    )


if __name__ == "__main__":
    main()
