"""The time of an epoch of LightGCN on the CPU, compared with the published program at equal work.

    python benchmarks/lightgcn_epoch.py --steps 20

Both train with BPR on random pairs of Gowalla's size (29,858 x 40,981, 810,128 pairs): two layers,
64 dimensions, batches of 2,048 pairs with one drawn item each, Adam, L2 on the step's own
embeddings or as weight decay. The published step is rewritten after gusye1234/LightGCN-PyTorch
(``code/model.py`` and ``code/utils.py``). Its sampling of negatives, done once per epoch, is left
out; the library's is timed with the step. An epoch's time is the median step times the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from harness import median_ratio, options, publish, time_side_by_side
from recsys import GOWALLA, random_interactions
from torch import Tensor, nn
from torch.nn import functional as F

from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.light_gcn import LightGCN
from bayescl_lab.ranking.losses import BPRLoss
from bayescl_lab.ranking.propagation import normalized_graph

DIM, BATCH, LAYERS, DECAY, LEARNING_RATE = 64, 2048, 2, 1e-4, 1e-3
PUBLISHED, OURS = "LightGCN-PyTorch", "bayescl"


class PublishedLightGCN(nn.Module):
    """The published model: two embedding tables and a sparse COO graph."""

    def __init__(self, train: Interactions) -> None:
        super().__init__()
        self.users = nn.Embedding(train.num_users, DIM)
        self.items = nn.Embedding(train.num_items, DIM)
        for table in (self.users, self.items):
            nn.init.normal_(table.weight, std=0.1)
        self.graph = normalized_graph(train).to_sparse_coo().coalesce()

    def all_embeddings(self) -> tuple[Tensor, Tensor]:
        """Propagate both tables and average the layers."""
        layer = torch.cat([self.users.weight, self.items.weight])
        layers = [layer]
        for _ in range(LAYERS):
            layer = torch.sparse.mm(self.graph, layer)
            layers.append(layer)
        mean = torch.stack(layers, dim=1).mean(dim=1)
        users, items = mean.split([self.users.num_embeddings, self.items.num_embeddings])
        return users, items

    def loss(self, users: Tensor, positives: Tensor, negatives: Tensor) -> Tensor:
        """BPR and the L2 penalty of the embeddings before propagation."""
        all_users, all_items = self.all_embeddings()
        chosen = all_users[users]
        positive = (chosen * all_items[positives]).sum(dim=1)
        negative = (chosen * all_items[negatives]).sum(dim=1)
        ego = (self.users(users), self.items(positives), self.items(negatives))
        penalty = sum(rows.norm(2).pow(2) for rows in ego) / (2 * len(users))
        return F.softplus(negative - positive).mean() + DECAY * penalty


def batches_without_end(train: Interactions) -> Iterator[Tensor]:
    """Batches of pairs, one column a pair, of one epoch after the other."""
    pairs = torch.stack([*map(torch.from_numpy, train.pairs())])
    while True:
        yield from pairs[:, torch.randperm(pairs.shape[1])].split(BATCH, dim=1)


def published_step(train: Interactions) -> Callable[[], None]:
    """One step of the published program, negatives at hand."""
    torch.manual_seed(0)
    model, batches = PublishedLightGCN(train), batches_without_end(train)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        users, positives = next(batches)
        negatives = torch.randint(train.num_items, users.shape)
        loss = model.loss(users, positives, negatives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def our_step(train: Interactions) -> Callable[[], None]:
    """One step of the library's encoder, drawing of negatives included."""
    torch.manual_seed(0)
    encoder, loss = LightGCN(train, DIM, layers=LAYERS, score="inner"), BPRLoss()
    batches = batches_without_end(train)
    optimizer = torch.optim.Adam(
        encoder.parameters(), lr=LEARNING_RATE, weight_decay=DECAY, fused=True
    )

    def step() -> None:
        users, positives = next(batches)
        anchors, items, negatives = encoder.embed(
            users, positives, torch.randint(train.num_items, users.shape)
        )
        value = loss.sampled(anchors, items, negatives[:, None])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    return step


def main() -> None:
    """Measure, print and write."""
    chosen = options(__doc__, "cpu-time", threads=torch.get_num_threads(), steps=20)
    train = random_interactions(*GOWALLA)
    methods = {PUBLISHED: published_step(train), OURS: our_step(train)}
    measured = time_side_by_side(methods, rounds=chosen.steps, clock=chosen.clock)
    steps = -(-train.num_interactions // BATCH)
    rows = [
        {
            "method": name,
            "step_ms": round(times.median * 1e3, 1),
            "quartiles_ms": [round(quartile * 1e3, 1) for quartile in times.quartiles],
            "epoch_s": round(times.median * steps, 1),
            "ratio_to_published": round(median_ratio(times, measured[PUBLISHED]), 3),
            "rounds": len(times.seconds),
        }
        for name, times in measured.items()
    ]
    about = {"batches_per_epoch": steps, "threads": chosen.threads, "clock": chosen.clock_name}
    publish("lightgcn-epoch", rows, **about)


if __name__ == "__main__":
    main()
