"""Train small recommenders on as many ranks as the environment says.

    python train_on_ranks.py FOLDER DEVICES

Every case has a run folder in ``FOLDER``; run by ``test_several_devices.py`` of this folder.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import ranking_loss
from bayescl_lab.runs.ranking.run import train_ranking
from bayescl_lab.runs.ranking.serving import Recommender
from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.result import Result

CASES: dict[str, dict[str, Any]] = {
    "mf, a draw, bayesian": {"weight_decay": 0.01, "propagate": 1},
    "mf, a draw, bpr": {"loss": ranking_loss("bpr")},
    "mf, all, hard": {"loss": ranking_loss("hard"), "candidates": 999},
    "lightgcn, all, bayesian": {"encoder": "lightgcn", "candidates": 999},
}


def settings_of(case: str, data: Path, devices: int) -> RankingSettings:
    """The settings of a case, on a table of groups of users and items."""
    shared = RankingSettings(
        data=RankingData(str(data), user_column="customer", item_column="product"),
        dim=8,
        candidates=8,
        batch_size=7,
        lr=0.03,
        epochs=3,
        device="cpu",
        devices=devices,
    )
    return replace(shared, **CASES[case])


def train_all(folder: Path, data: Path, devices: int) -> None:
    """Train every case in a run folder of its own, named by its number."""
    for number, case in enumerate(CASES):
        train_ranking(settings_of(case, data, devices), folder / str(number))


def found(folder: Path) -> dict[str, dict[str, Any]]:
    """What the runs in a folder came to, by case."""
    results = {}
    for number, case in enumerate(CASES):
        own = folder / str(number)
        scorer = Recommender(own).scorer
        row = Result.read_file(own / "result.json").row
        metrics = {name: score.mean for name, score in row.scores.items()}
        loss = RunFolder(own, "").read_metrics()[-1]["loss"]
        figures = {"metrics": metrics, "loss": loss, "epochs": row.epochs}
        results[case] = {**figures, "tables": {"users": scorer.users, "items": scorer.items}}
    return results


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    torch.set_num_threads(1)
    out, ranks = Path(sys.argv[1]), int(sys.argv[2])
    train_all(out, out.parent / "bought.csv", ranks)
