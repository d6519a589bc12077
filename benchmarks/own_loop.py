"""The quick start's own loop for recommenders on MovieLens-100k, with and without ``log_q``.

    BAYESCL_DATA=data python benchmarks/own_loop.py --seeds 0 1 2

Finished runs stay in a journal, so the script continues where it stopped. Writes
``benchmarks/results/own-loop.json``.
"""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from typing import Any

import torch
from harness import RESULTS, Journal, learn, means, options, write_json
from torch.nn import functional as F

from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.scorers import EmbeddingScorer, Popularity
from bayescl_lab.runs.losses import RankingLossSettings

METRICS = ("recall@20", "ndcg@20")
LOOPS = {
    "own_loop_info_nce": ("info_nce", True),
    "own_loop_bayesian": ("bayesian", True),
    "uncorrected_loop_info_nce": ("info_nce", False),
}
"""The loss of each loop, and whether it corrects for popularity."""


def own_loop(parts: RankingParts, loss: str, seed: int, *, corrects: bool) -> EmbeddingScorer:
    """What the page's loop trains, with cosines of 64 coordinates."""
    torch.manual_seed(seed)
    train, shape = parts.train, parts.train.matrix.shape
    users, items = (torch.nn.Embedding(n, 64, _weight=0.1 * torch.randn(n, 64)) for n in shape)
    made = RankingLossSettings(loss, {"temperature": 0.2})  # as on the page
    objective: Any = made.build(density=train.density)
    pairs = torch.stack([*map(torch.from_numpy, train.pairs())])
    chosen = torch.bincount(pairs[1], minlength=train.num_items)
    log_share = torch.log(chosen / train.num_interactions)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=5e-3)
    for _ in range(20):
        for who, ids in pairs[:, torch.randperm(pairs.shape[1])].split(1024, dim=1):
            log_q = log_share[ids] if corrects else None
            value = objective.in_batch(users(who), items(ids), groups=ids, log_q=log_q)
            learn(value, optimizer)
    return EmbeddingScorer(F.normalize(users.weight), F.normalize(items.weight))


def main() -> None:
    """Measure and write."""
    chosen = options(__doc__, seeds=[0, 1, 2], threads=1)
    done = Journal(RESULTS / "own-loop.jsonl", key=itemgetter(0))
    parts = load_interactions("ml-100k")
    for seed, (name, (loss, corrects)) in product(chosen.seeds, LOOPS.items()):
        if [name, seed] not in done:
            scorer = own_loop(parts, loss, seed, corrects=corrects)
            done.add([[name, seed], evaluate_ranking(scorer, parts).metrics])
    runs: dict[str, list[dict[str, float]]] = {
        "popularity": [evaluate_ranking(Popularity(parts.train), parts).metrics]
    }
    for (name, _), metrics in done.lines.values():
        runs.setdefault(name, []).append(metrics)
    figures = {name: means(of, METRICS) for name, of in runs.items()}
    write_json(RESULTS / "own-loop.json", {"seeds": chosen.seeds, "figures": {"ml-100k": figures}})


if __name__ == "__main__":
    main()
