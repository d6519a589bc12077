"""Recommenders with all defaults: every loss, and the quick start's own loop.

    BAYESCL_DATA=data python benchmarks/own_loop.py --seeds 3

On MovieLens-100k and on a made-up shop: ``bayescl train ranking`` with every loss; the loop of the
quick start's page, with and without ``log_q``; and popularity. Finished runs stay in ``--journal``,
so the script continues where it was stopped. Writes ``benchmarks/results/own-loop.json``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from harness import RESULTS
from made_up_shop import made_up_shop

from bayescl_lab.ranking.batches import PairOrder
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.scorers import EmbeddingScorer, Popularity, Scorer
from bayescl_lab.runs.losses import RankingLoss
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.ranking.baselines import ranking_figures
from bayescl_lab.runs.ranking.data import RankingData
from bayescl_lab.runs.ranking.run import train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.statistics import mean_and_spread, paired_difference

METRICS = ("recall@20", "ndcg@20")
Figures = dict[str, float]


def own_loop(
    parts: RankingParts, loss: str, seed: int, *, epochs: int = 20, corrects: bool = True
) -> EmbeddingScorer:
    """What the page's loop trains, with cosines of 64 coordinates."""
    torch.manual_seed(seed)
    train = parts.train
    users, items = (
        torch.nn.Embedding(count, 64, _weight=0.1 * torch.randn(count, 64))
        for count in (train.num_users, train.num_items)
    )
    objective: Any = RankingLoss(loss).build(score="cosine", density=train.density)
    user_of, item_of = map(torch.from_numpy, train.pairs())
    log_share = torch.log(torch.bincount(item_of, minlength=train.num_items) / len(item_of))
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=5e-3)
    order = PairOrder(len(item_of), 1024, seed)
    for epoch in range(epochs):
        order.set_epoch(epoch)
        for rows in order:
            ids = item_of[rows]
            log_q = log_share[ids] if corrects else None
            value = objective.in_batch(users(user_of[rows]), items(ids), groups=ids, log_q=log_q)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return EmbeddingScorer(users.weight, items.weight)


def command(data: RankingData, loss: str, seed: int) -> Figures:
    """What ``bayescl train ranking`` reports with all defaults but the loss."""
    settings = RankingSettings(loss=RankingLoss(loss), data=data, seed=seed, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        figures: Figures = train_ranking(settings, Path(folder, "run"))["metrics"]
    return figures


def methods(data: RankingData) -> dict[str, Callable[[int], Figures]]:
    """What is measured on a data set, by name; each is called with a seed."""
    parts = data.load("test")

    def judged(scorer: Scorer) -> Figures:
        figures: Figures = ranking_figures(scorer, parts)["metrics"]
        return figures

    losses = ("info_nce", "bayesian", "debiased", "hard", "latent")
    loop = partial(own_loop, parts)
    return {
        "popularity": lambda _: judged(Popularity(parts.train)),
        "own loop, info_nce": lambda seed: judged(loop("info_nce", seed)),
        "own loop, bayesian": lambda seed: judged(loop("bayesian", seed)),
        **{f"train ranking, {loss}": partial(command, data, loss) for loss in losses},
        "own loop without log_q, info_nce": lambda seed: judged(
            loop("info_nce", seed, corrects=False)
        ),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--journal", type=Path, default=Path("own-loop.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = options.journal.read_text().splitlines() if options.journal.is_file() else []
    done = {tuple(key): figures for key, figures in map(json.loads, lines)}
    with tempfile.TemporaryDirectory() as folder:
        made_up_shop().write_csv(shop := str(Path(folder, "shop.csv")))
        measured = {
            name: methods(RankingData(data)) for name, data in (("ml-100k",) * 2, ("shop", shop))
        }
        for seed in range(options.seeds):
            for key in [(data, method, seed) for data in measured for method in measured[data]]:
                if key not in done:
                    figures = measured[key[0]][key[1]](seed)
                    done[key] = {name: figures[name] for name in METRICS}
                    with options.journal.open("a") as file:
                        file.write(json.dumps([key, done[key]]) + "\n")
    results: dict[str, Any] = {}
    for place, method, _ in done:
        entry: dict[str, Any] = {}
        for name in METRICS:
            ours, base = (
                [done[place, other, seed][name] for seed in range(options.seeds)]
                for other in (method, "train ranking, info_nce")
            )
            entry[name] = mean_and_spread(ours)
            entry[f"{name} beyond info_nce"] = paired_difference(ours, base)
        results.setdefault(place, {})[method] = entry
    content = {"seeds": options.seeds, "figures": results, **provenance()}
    (RESULTS / "own-loop.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
