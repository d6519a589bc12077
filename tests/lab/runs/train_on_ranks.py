"""Train encoders without batch normalization, and recommenders, on as many ranks as there are.

    python train_on_ranks.py FOLDER DEVICES

Every case has a folder in ``FOLDER``; run by ``test_several_devices.py``.
"""

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from runs.same_run import final_state, rows_of
from torch import nn

from bayescl.losses import BayesianContrastiveLoss, OracleContrastiveLoss
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.batches import EpochOrder, StoreBatches
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.items.store import ItemStore
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.ranking_run import train_ranking
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.settings import process_rank

BATCH, EPOCHS, IMAGES = 16, 2, 50
ENCODERS = {"bayesian": BayesianContrastiveLoss, "oracle": OracleContrastiveLoss}
RECOMMENDERS: dict[str, dict[str, Any]] = {
    "mf, a draw, bayesian": {"weight_decay": 0.01, "propagate": 1},
    "mf, a draw, bpr": {"loss": RankingLossSettings("bpr")},
    "mf, all, hard": {"loss": RankingLossSettings("hard"), "candidates": 999},
    "lightgcn, all, bayesian": {"encoder": "lightgcn", "candidates": 999},
}
CASES = (*ENCODERS, *RECOMMENDERS)


class Shifted(Augmentation):
    """Views that depend on the image alone, so that ranks see what one process sees."""

    def forward(self, images: torch.Tensor, *, seed: int) -> torch.Tensor:
        del seed
        return (images.float() / 255).roll(1, dims=3)


def train_encoder(case: str, folder: Path, devices: int) -> None:
    """Train a small encoder."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (IMAGES, 1, 5, 5), generator=generator).to(torch.uint8)
    store = ItemStore(images, torch.arange(IMAGES) % 3, ("a", "b", "c"))
    rank = process_rank(devices).rank
    order = EpochOrder(IMAGES, BATCH, 0, rank=rank, num_ranks=devices)
    torch.manual_seed(0)
    model = SimCLR(
        encoder=nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten()),
        projection_head=nn.Sequential(nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 6)),
        loss=ENCODERS[case](gather=devices > 1),
        augmentation=Shifted(),
        normalization=nn.Identity(),
        embeds_items=True,
        learning_rate=0.01,
        total_steps=EPOCHS * len(order),
        seed=0,
    )
    if rank == 0:
        RunFolder.create(folder, "a test", {})
    options: Any = {"epochs": EPOCHS, "device": torch.device("cpu"), "devices": devices}
    fit_in_folder(model, StoreBatches(store, order), RunFolder(folder, "a test"), **options)


def train_recommender(case: str, folder: Path, devices: int) -> None:
    """Train a recommender on groups of users and items."""
    shared = RankingSettings(
        data=RankingData(str(folder.parents[1] / "bought.csv")),
        dim=8,
        candidates=8,
        batch_size=7,
        lr=0.03,
        epochs=EPOCHS,
        device="cpu",
        devices=devices,
    )
    train_ranking(replace(shared, **RECOMMENDERS[case]), folder)


def train_all(parent: Path, devices: int) -> None:
    """Train every case in a folder of its own, named by its number."""
    parent.mkdir(exist_ok=True)
    for number, case in enumerate(CASES):
        train = train_encoder if case in ENCODERS else train_recommender
        train(case, parent / str(number), devices)


def found(parent: Path) -> dict[str, tuple[dict[str, torch.Tensor], list[float]]]:
    """Weights, and the loss of every epoch, by case."""
    results = {}
    for number, case in enumerate(CASES):
        folder = parent / str(number)
        state = final_state(folder)
        weights = {name: value for name, value in state.items() if torch.is_tensor(value)}
        results[case] = weights, [row["loss"] for row in rows_of(folder)]
    return results


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    torch.set_num_threads(1)
    train_all(Path(sys.argv[1]), int(sys.argv[2]))
