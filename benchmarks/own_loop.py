"""Recommenders with all defaults: every loss, and the quick start's own loop.

    BAYESCL_DATA=data python benchmarks/own_loop.py 3  # seeds

On MovieLens-100k and on a made-up shop: ``bayescl train ranking`` with every loss; the loop of the
quick start's page, with and without ``log_q``; and popularity. Finished runs stay in a journal, so
the script continues where it stopped. Writes ``benchmarks/results/own-loop.json``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from harness import RESULTS, Journal, write_json

from bayescl_lab.compare.summary import mean_and_spread, paired_difference
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.scorers import EmbeddingScorer, Popularity
from bayescl_lab.runs.losses import LossSettings, ranking_loss
from bayescl_lab.runs.ranking.run import train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings

METRICS, BASE = ("recall@20", "ndcg@20"), "train_info_nce"
CUSTOMERS, PRODUCTS, TASTES = 3000, 1500, 8


def made_up_shop() -> pl.DataFrame:
    """Customers with hidden tastes, products of very unequal popularity; a purchase in a row."""
    draws = np.random.default_rng(0)
    people, goods = (draws.normal(size=(number, TASTES)) for number in (CUSTOMERS, PRODUCTS))
    taste = 2 * people @ goods.T / TASTES**0.5
    appeal = taste - 0.8 * np.log1p(draws.permutation(PRODUCTS))
    order = np.argsort(draws.gumbel(size=appeal.shape) + appeal, axis=1)[:, ::-1]
    bought = np.clip(draws.lognormal(3, 0.7, CUSTOMERS), 5, PRODUCTS // 4).astype(int)
    columns = np.concatenate([row[:count] for row, count in zip(order, bought, strict=True)])
    return pl.DataFrame({"customer": np.repeat(np.arange(CUSTOMERS), bought), "product": columns})


def own_loop(
    parts: RankingParts, loss: str, seed: int, *, corrects: bool = True
) -> dict[str, float]:
    """What the page's loop trains, with cosines of 64 coordinates."""
    torch.manual_seed(seed)
    train, shape = parts.train, parts.train.matrix.shape
    users, items = (torch.nn.Embedding(n, 64, _weight=0.1 * torch.randn(n, 64)) for n in shape)
    objective: Any = ranking_loss(loss).build(score="cosine", density=train.density)
    pairs = torch.stack([*map(torch.from_numpy, train.pairs())])
    chosen = torch.bincount(pairs[1], minlength=train.num_items)
    log_share = torch.log(chosen / train.num_interactions)
    optimizer = torch.optim.Adam([*users.parameters(), *items.parameters()], lr=5e-3)
    for _ in range(20):
        for who, ids in pairs[:, torch.randperm(pairs.shape[1])].split(1024, dim=1):
            log_q = log_share[ids] if corrects else None
            value = objective.in_batch(users(who), items(ids), groups=ids, log_q=log_q)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    return dict(evaluate_ranking(EmbeddingScorer(users.weight, items.weight), parts)["metrics"])


def command(data: RankingData, loss: LossSettings, seed: int) -> dict[str, float]:
    """What ``bayescl train ranking`` reports with all defaults but the loss."""
    settings = RankingSettings(loss=loss, data=data, seed=seed, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        return dict(train_ranking(settings, Path(folder, "run"))["metrics"])


def methods(data: RankingData) -> dict[str, Callable[[int], dict[str, float]]]:
    """What is measured on a data set, by name; each is called with a seed."""
    parts = load_interactions(**asdict(data))
    popular = evaluate_ranking(Popularity(parts.train), parts)["metrics"]
    names = ("info_nce", "bayesian", "debiased", "hard", "bpr")
    density = {"tau_plus": parts.train.density}
    losses = {name: ranking_loss(name) for name in names} | {
        "bayesian_beta_0.7": ranking_loss("bayesian", {"beta": 0.7}),
        "hard_concentration_0.1": ranking_loss("hard", {"concentration": 0.1}),
        "debiased_density": ranking_loss("debiased", density),
        "hard_density_concentration_1": ranking_loss("hard", {"concentration": 1.0} | density),
    }
    return {
        "popularity": lambda _: popular,
        **{f"own_loop_{name}": partial(own_loop, parts, name) for name in names[:2]},
        **{f"train_{name}": partial(command, data, loss) for name, loss in losses.items()},
        "uncorrected_loop_info_nce": partial(own_loop, parts, "info_nce", corrects=False),
    }


def main() -> None:
    """Measure and write."""
    seeds = range(int(sys.argv[1]))
    torch.set_num_threads(1)
    done = Journal(RESULTS / "own-loop.jsonl", key=itemgetter(0))
    with tempfile.TemporaryDirectory() as folder:
        made_up_shop().write_csv(shop := Path(folder, "shop.csv"))
        measures = {data: methods(RankingData(data)) for data in ("ml-100k", str(shop))}
        every = [(data, method) for data in measures for method in measures[data]]
        for seed, (data, method) in product(seeds, every):
            key = [Path(data).stem, method, seed]
            if key not in done:
                done.add([key, measures[data][method](seed)])
    results: dict[str, Any] = {}
    for place, method in dict.fromkeys(tuple(key[:2]) for key, _ in done.lines.values()):
        entries = results.setdefault(place, {})
        seen = [n for n in range(99) if [place, method, n] in done and [place, BASE, n] in done]
        for name in METRICS if seen else ():
            ours, base = ([done[place, of, n][1][name] for n in seen] for of in (method, BASE))
            entry = {"seeds": len(ours), "beyond_info_nce": paired_difference(ours, base)}
            entries.setdefault(method, {})[name] = mean_and_spread(ours) | entry
    write_json(RESULTS / "own-loop.json", {"figures": results})


if __name__ == "__main__":
    main()
