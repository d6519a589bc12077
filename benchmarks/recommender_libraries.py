"""Recommenders beside two well-known libraries on the CPU, in one run, on random data.

    python benchmarks/recommender_libraries.py --threads 1

Needs ``implicit`` and ``cornac``, which ``make bench`` installs. Two parts, each of them in turn:

- EASE on 8,000 items: fitted by both from the same sparse matrix, in float64.
- the full ranking: the best 20 unseen items of every user from the same two tables of 64
  dimensions, by inner product. The lists are compared, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version

import numpy as np
import torch
from cornac import models
from cornac.data import Dataset
from harness import median_ratio, options, publish, time_side_by_side
from implicit.cpu.bpr import BayesianPersonalizedRanking
from recsys import GOWALLA, random_interactions, seconds
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import EmbeddingScorer

DIM = 64
EASE_SIZE = (20_000, 8_000, 500_000)
REGULARIZATION = 300.0
K = 20
OURS = "bayescl"

Methods = Mapping[str, Callable[[], object]]


def ease() -> Methods:
    """EASE fitted by both."""
    train = random_interactions(*EASE_SIZE)
    users, items = train.pairs()
    triples = zip(users.tolist(), items.tolist(), [1.0] * len(users), strict=True)
    data = Dataset.from_uir(list(triples), seed=0)
    model = models.EASE(lamb=REGULARIZATION, posB=False, verbose=False)
    return {"Cornac": lambda: model.fit(data), OURS: lambda: EASE(train, REGULARIZATION)}


def ranking(seen: Interactions, threads: int) -> Methods:
    """The best unseen items of every user by both."""
    generator = torch.Generator().manual_seed(0)
    users, items = (torch.randn(size, DIM, generator=generator) for size in GOWALLA[:2])
    model = BayesianPersonalizedRanking(num_threads=threads)
    model.user_factors, model.item_factors = users.numpy(), items.numpy()
    liked, everyone = csr_matrix(seen.matrix, dtype=np.float32), np.arange(len(users))
    scorer = EmbeddingScorer(users, items, "inner")
    return {
        "implicit": lambda: model.recommend(everyone, liked, N=K)[0],
        OURS: lambda: full_ranking(scorer, K, seen=seen).items.numpy(),
    }


def measured(what: str, methods: Methods, rounds: int) -> list[dict[str, object]]:
    """Lines of the result: each method's time and its multiple of the other library's."""
    times = time_side_by_side(dict(methods), rounds=rounds, warmup=1)
    other = next(name for name in methods if name != OURS)
    return [
        {"what": what, "library": name} | seconds(own, ratio=median_ratio(own, times[other]))
        for name, own in times.items()
    ]


def main() -> None:
    """Measure, print and write."""
    chosen = options(__doc__, threads=torch.get_num_threads(), rounds=3)
    gowalla, rows = random_interactions(*GOWALLA), []
    with threadpool_limits(chosen.threads):
        rows += measured("EASE, 8,000 items", ease(), chosen.rounds)
        methods = ranking(gowalla, chosen.threads)
        rows += measured("full ranking, 29,858 x 40,981", methods, chosen.rounds)
        theirs, ours = (methods[name]() for name in ("implicit", OURS))
    publish(
        "recommender-libraries",
        rows,
        threads=chosen.threads,
        equal_places=round(float(np.mean(np.asarray(theirs) == np.asarray(ours))), 6),
        libraries={name: version(name) for name in ("implicit", "cornac")},
    )


if __name__ == "__main__":
    main()
