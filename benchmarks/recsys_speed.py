"""The time to train and rank recommenders on the CPU, on random data of well-known sizes.

    python benchmarks/recsys_speed.py --threads 2

Epochs have the size of MovieLens-100k (80,000 pairs of 943 users and 1,682 items), Bayesian and
InfoNCE in turn. The full ranking has the size of Gowalla (29,858 x 40,981, k = 20) and runs in a
separate process, whose peak memory is measured. Writes a dated JSON file to ``benchmarks/results``
and prints the same as a table.
"""

from __future__ import annotations

import argparse
import resource
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context

import lightning.pytorch as pl
import numpy as np
import torch
from harness import (
    Measurement,
    keep_freed_memory,
    median_ratio,
    time_side_by_side,
    write_result,
)
from rich.console import Console
from rich.table import Table

from bayescl.losses import BayesianContrastiveLoss, InfoNCELoss
from bayescl_lab.ranking.batches import PairBatches
from bayescl_lab.ranking.candidates import AllItems, CandidateSource, SharedCandidates
from bayescl_lab.ranking.encoder import MatrixFactorization
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import EmbeddingScorer
from bayescl_lab.runs.loop import quiet_lightning

MOVIELENS = (943, 1_682, 80_000)
GOWALLA = (29_858, 40_981, 810_128)
DIM, BATCH = 64, 1024
REFERENCE = "InfoNCE"

SOURCES: dict[str, Callable[[Interactions], CandidateSource]] = {
    "64 shared": lambda train: SharedCandidates(train, 64),
    "512 shared": lambda train: SharedCandidates(train, 512),
    "all items": AllItems,
}


def random_interactions(users: int, items: int, pairs: int, seed: int = 0) -> Interactions:
    """Pairs with the long tails of real data: a user's and an item's share fall as powers."""
    generator = np.random.default_rng(seed)
    found = np.empty(0, dtype=np.int64)
    while len(found) < pairs:
        rows = (users * generator.random(2 * pairs) ** 1.8).astype(np.int64)
        columns = (items * generator.random(2 * pairs) ** 2.5).astype(np.int64)
        found = np.unique(np.concatenate([found, rows * items + columns]))
    found = generator.permutation(found)[:pairs]
    return Interactions.from_pairs(found // items, found % items, user_ids=users, item_ids=items)


class EpochTimer(pl.Callback):
    """The seconds of every epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: list[float] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        del trainer, pl_module
        self._start = self.clock()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stop the clock."""
        del trainer, pl_module
        self.seconds.append(self.clock() - self._start)


def epoch_seconds(
    train: Interactions,
    source: CandidateSource,
    loss: torch.nn.Module,
    clock: Callable[[], float],
) -> float:
    """Seconds of the second of two epochs under Lightning; the first warms up."""
    torch.manual_seed(0)
    encoder = MatrixFactorization(train, DIM)
    module = RankingModule(
        encoder=encoder, loss=loss, candidates=source, learning_rate=5e-3, seed=0
    )
    timer = EpochTimer(clock)
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[timer],
        )
        trainer.fit(module, PairBatches(train, BATCH, 0))
    return timer.seconds[-1]


def measure_epochs(rounds: int, clock: Callable[[], float]) -> list[dict[str, object]]:
    """Epochs of both losses in turn, for every source of candidates."""
    train, rows = random_interactions(*MOVIELENS), []
    losses = {
        REFERENCE: InfoNCELoss(temperature=0.2),
        "Bayesian": BayesianContrastiveLoss(tau_plus=0.05, temperature=0.2),
    }
    for name, make in SOURCES.items():
        source = make(train)
        measured = {loss: Measurement(loss) for loss in losses}
        for number in range(rounds):
            for loss in sorted(losses, reverse=number % 2 == 1):
                measured[loss].seconds.append(epoch_seconds(train, source, losses[loss], clock))
        for loss, one in measured.items():
            rows.append(
                {
                    "what": f"epoch of 80,000 pairs, {name}",
                    "method": loss,
                    "median_s": round(one.median, 4),
                    "fastest_s": round(min(one.seconds), 4),
                    "ratio_to_infonce": round(median_ratio(one, measured[REFERENCE]), 3),
                    "rounds": rounds,
                }
            )
    return rows


def measure_ranking(threads: int, rounds: int) -> dict[str, object]:
    """The full ranking of a data set of Gowalla's size, and this process's peak memory."""
    torch.set_num_threads(threads)
    seen = random_interactions(*GOWALLA)
    generator = torch.Generator().manual_seed(0)
    users, items = (torch.randn(size, DIM, generator=generator) for size in GOWALLA[:2])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rank = partial(full_ranking, EmbeddingScorer(users, items), 20, seen=seen)
    times = time_side_by_side({"ranking": rank}, rounds=rounds, warmup=1)["ranking"].seconds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return {
        "what": "full ranking of 29,858 x 40,981, k = 20",
        "method": "cosine",
        "median_s": round(statistics.median(times), 3),
        "fastest_s": round(min(times), 3),
        "peak_mib": round(peak / unit),
        "peak_before_mib": round(before / unit),
        "rounds": rounds,
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpu-time", action="store_true", help="epochs: time of the CPU")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)

    clock = time.process_time if arguments.cpu_time else time.perf_counter
    keep_freed_memory()
    body = measure_epochs(arguments.rounds, clock)
    with get_context("spawn").Pool(1) as pool:
        body.append(pool.apply(measure_ranking, (arguments.threads, min(arguments.rounds, 3))))
    table = Table(
        "what",
        "method",
        "median s",
        "x " + REFERENCE,
        "peak MiB",
        title=f"batch {BATCH}, dim {DIM}, {arguments.threads} threads",
    )
    for row in body:
        row["threads"] = arguments.threads
        row["clock"] = "CPU time" if arguments.cpu_time and "epoch" in row["what"] else "wall time"
        ratio, peak = row.get("ratio_to_infonce", ""), row.get("peak_mib", "")
        table.add_row(row["what"], row["method"], f"{row['median_s']:.3f}", str(ratio), str(peak))
    console = Console()
    console.print(table)
    command = shlex.join(["python", "benchmarks/recsys_speed.py", *sys.argv[1:]])
    console.print(f"written to {write_result('recsys-speed', command, {'measurements': body})}")


if __name__ == "__main__":
    main()
