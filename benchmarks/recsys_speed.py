"""The time to train and rank recommenders on the CPU, on random data of well-known sizes.

    python benchmarks/recsys_speed.py --threads 2

Epochs have the size of MovieLens-100k (80,000 pairs of 943 users and 1,682 items), Bayesian and
InfoNCE in turn. The full ranking has the size of Gowalla (29,858 x 40,981, k = 20) and runs in a
separate process, whose peak memory is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from harness import (
    Measurement,
    apart,
    keep_freed_memory,
    median_ratio,
    options,
    publish,
    time_side_by_side,
    usage,
)
from lightning.pytorch.callbacks import LambdaCallback
from recsys import GOWALLA, MOVIELENS, fit, random_interactions, seconds

from bayescl.losses import BayesianContrastiveLoss, InfoNCELoss
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.encoder import MatrixFactorization
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import EmbeddingScorer

DIM, BATCH = 64, 32
REFERENCE = "InfoNCE"

COUNTS = {"64 shared": 64, "512 shared": 512, "all items": 99_999}


def epoch_seconds(
    train: Interactions,
    source: DrawnCandidates,
    loss: torch.nn.Module,
    clock: Callable[[], float],
) -> float:
    """Seconds of the second of two epochs under Lightning; the first warms up."""
    torch.manual_seed(0)
    encoder = MatrixFactorization(train, DIM)
    module = RankingModule(
        encoder=encoder, loss=loss, candidates=source, learning_rate=5e-3, seed=0
    )
    times: list[float] = []

    def note(*_: object) -> None:
        times.append(clock())

    timer = LambdaCallback(on_train_epoch_start=note, on_train_epoch_end=note)
    fit(module, UserBatches(train, BATCH, 0), 2, timer)
    return times[-1] - times[-2]


def measure_epochs(rounds: int, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """Epochs of both losses in turn, for every source of candidates."""
    train, rows = random_interactions(*MOVIELENS), []
    losses = {
        REFERENCE: InfoNCELoss(temperature=0.2),
        "Bayesian": BayesianContrastiveLoss(tau_plus=0.05, temperature=0.2),
    }
    for name, count in COUNTS.items():
        source = DrawnCandidates(train.num_items, count)
        measured = {loss: Measurement(loss) for loss in losses}
        for number in range(rounds):
            for loss in sorted(losses, reverse=number % 2 == 1):
                measured[loss].seconds.append(epoch_seconds(train, source, losses[loss], clock))
        for loss, times in measured.items():
            ratio = median_ratio(times, measured[REFERENCE])
            row = {"what": f"epoch of 80,000 pairs, {name}", "method": loss}
            rows.append(row | seconds(times, ratio_to_infonce=ratio))
    return rows


def measure_ranking(threads: int, rounds: int) -> dict[str, Any]:
    """The full ranking of a data set of Gowalla's size, and this process's peak memory."""
    torch.set_num_threads(threads)
    seen = random_interactions(*GOWALLA)
    generator = torch.Generator().manual_seed(0)
    users, items = (torch.randn(size, DIM, generator=generator) for size in GOWALLA[:2])
    _, before = usage()
    rank = partial(full_ranking, EmbeddingScorer(users, items), 20, seen=seen)
    times = time_side_by_side({"ranking": rank}, rounds=rounds, warmup=1)["ranking"]
    what = {"what": "full ranking of 29,858 x 40,981, k = 20", "method": "cosine"}
    peaks = {"peak_mib": round(usage()[1]), "peak_before_mib": round(before)}
    return {**what, **seconds(times), **peaks, "clock": "wall time"}


def main() -> None:
    """Measure, print and write."""
    chosen = options(__doc__, "cpu-time", threads=torch.get_num_threads(), rounds=5)
    keep_freed_memory()
    epochs = measure_epochs(chosen.rounds, chosen.clock)
    rows = [row | {"clock": chosen.clock_name} for row in epochs]
    rows.append(apart(measure_ranking, chosen.threads, min(chosen.rounds, 3)))
    publish("recsys-speed", [row | {"threads": chosen.threads} for row in rows])


if __name__ == "__main__":
    main()
