"""Whether soft targets among items help recommenders: item embeddings as their own teacher.

    BAYESCL_DATA=data python benchmarks/recommender_teacher.py ml-100k --seeds 0 1 2 3 4
    BAYESCL_DATA=data python benchmarks/recommender_teacher.py gowalla --losses info_nce

One thread, at the settings of ``recommender_course.py``. The teacher of an item is its own
embedding, and the teacher of a user is the mean of the embeddings of the user's items, all without
gradient. A seed of its own chooses ``positive_share``, propagation and exponent on the validation
part; then each loss is trained with and without the teacher and evaluated on the test part.
Finished runs stay in a journal.

Writes ``benchmarks/results/recommender-teacher.json``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from itertools import product
from operator import itemgetter
from typing import Any

import torch
from harness import RESULTS, Journal, keep_freed_memory, write_json
from recommender_course import (
    CHOOSING_SEED,
    MEASURES,
    RANKINGS,
    SETTINGS,
    SMALL,
    course,
    loaded,
)
from torch import Tensor
from torch.nn import functional as F

from bayescl import Rows
from bayescl_lab.compare.summary import mean_and_spread, paired_difference
from bayescl_lab.ranking.batches import UserBatch
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.runs.provenance import git_commit

COMPARED = ("info_nce", "bayesian")
SHARES = {"ml-100k": (1.0, 0.95, 0.9, 0.8, 0.5), "gowalla": (1.0, 0.95, 0.8)}
OF_DATA = {
    "ml-100k": SETTINGS["ml-100k"],
    "gowalla": SETTINGS["gowalla"] | {"lr": 0.02, "epochs": 10},  # half as many epochs
}


class TaughtCandidates(DrawnCandidates):
    """Drawn candidates whose embeddings, without gradient, are the teacher."""

    def __call__(self, loss: Any, encoder: Encoder, batch: UserBatch, *, seed: int) -> Tensor:
        """Compute ``loss.sampled`` of a batch."""
        drawn, valid = self.choose(batch, seed=seed)
        users, positives, candidates = encoder.embed(batch.users, batch.items, drawn)
        liked = F.normalize(positives.detach(), dim=1)
        mean = torch.zeros_like(users).index_add_(0, batch.anchor_of, liked)  # up to its length
        value: Tensor = loss.sampled(
            users,
            positives,
            Rows(candidates, teacher=candidates.detach()),
            anchor_of=batch.anchor_of,
            valid=valid,
            teacher=mean,
        )
        return value


def scores(
    parts: RankingParts, of: Mapping[str, Any], loss: str, share: float, seed: int
) -> list[dict[str, Any]]:
    """Train one seed and return the figures of each way to rank."""
    made = DrawnCandidates if share == 1 else TaughtCandidates
    end = {**of, "every": of["epochs"], "positive_share": share}
    return course(parts, end, loss, seed, of["rankings"], made)


def main() -> None:
    """Choose on the validation part, measure on the test part, and write."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", choices=list(OF_DATA))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--losses", nargs="+", choices=COMPARED, default=COMPARED)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    done = Journal(RESULTS / "recommender-teacher.jsonl", key=itemgetter(0))
    of = OF_DATA[chosen.data] | {"rankings": RANKINGS[: 1 if chosen.data == SMALL else None]}
    for part, seeds in (("validation", [CHOOSING_SEED]), ("test", chosen.seeds)):
        parts = loaded(chosen.data, evaluate_on=part)
        for loss, seed in product(chosen.losses, seeds):
            shares = (
                SHARES[chosen.data]
                if part == "validation"
                else with_and_without(done, chosen.data, loss)
            )
            for share in shares:
                key = [chosen.data, part, loss, share, seed]
                if key not in done:
                    done.add([key, scores(parts, of, loss, share, seed), git_commit()])
                    print(done[key], flush=True)
    records = [
        summary(done, data, loss)
        for data, loss in product(OF_DATA, COMPARED)
        if any(key[:3] == [data, "test", loss] for key, *_ in done.lines.values())
    ]
    write_json(RESULTS / "recommender-teacher.json", {"seed": CHOOSING_SEED, "records": records})


def best(done: Journal, data: str, loss: str, share: float) -> dict[str, Any]:
    """The way to rank with the highest NDCG@20 on the validation part."""
    rows = done[[data, "validation", loss, share, CHOOSING_SEED]][1]
    return max(rows, key=itemgetter("ndcg@20"))


def with_and_without(done: Journal, data: str, loss: str) -> tuple[float, float]:
    """1, and the share below 1 that is best on the validation part."""
    ndcg = {share: best(done, data, loss, share)["ndcg@20"] for share in SHARES[data] if share < 1}
    return 1.0, max(ndcg, key=lambda share: ndcg[share])


def summary(done: Journal, data: str, loss: str) -> dict[str, Any]:
    """Figures of a loss with and without a teacher, and their difference paired by seed."""
    shares = with_and_without(done, data, loss)
    figures: dict[float, dict[str, Any]] = {}
    for share in shares:
        chosen = best(done, data, loss, share)
        place = [chosen["propagate"], chosen["item_norm_exponent"]]
        rows = [
            row
            for key, rows, _ in done.lines.values()
            if key[:4] == [data, "test", loss, share]
            for row in rows
            if [row["propagate"], row["item_norm_exponent"]] == place
        ]
        figures[share] = {name: [row[name] for row in rows] for name in MEASURES}
    without, taught = (figures[share] for share in shares)
    return {
        "data": data,
        "loss": loss,
        "positive_share": shares[1],
        "seeds": len(without["ndcg@20"]),
        "validation": {
            f"{share:g}": best(done, data, loss, share)["ndcg@20"] for share in SHARES[data]
        },
        "without": {name: mean_and_spread(values) for name, values in without.items()},
        "with": {name: mean_and_spread(values) for name, values in taught.items()},
        "gain": {name: paired_difference(taught[name], without[name]) for name in MEASURES},
    }


if __name__ == "__main__":
    main()
