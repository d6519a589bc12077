"""Train small networks without batch normalization on as many ranks as the environment says.

    python train_on_ranks.py FOLDER DEVICES

Writes the final weights and losses of every case; run by ``test_several_devices.py``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from torch import nn

from bayescl.losses import BayesianContrastiveLoss, OracleContrastiveLoss
from bayescl_lab.images.augmentation import Augmentation
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.loop import fit_in_folder
from bayescl_lab.runs.settings import process_rank

BATCH, EPOCHS, IMAGES = 16, 2, 50
CASES = {"bayesian": BayesianContrastiveLoss, "oracle": OracleContrastiveLoss}


class Shifted(Augmentation):
    """Views that depend on the image alone, so that ranks see what one process sees."""

    def forward(self, images: torch.Tensor, *, seed: int) -> torch.Tensor:
        del seed
        return (images.float() / 255).roll(1, dims=3)


def train(case: str, folder: Path, devices: int) -> dict[str, object]:
    """Train one case and return its weights and the loss of every epoch."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, (IMAGES, 1, 5, 5), generator=generator).to(torch.uint8)
    store = ImageStore(images, torch.arange(IMAGES) % 3, ("a", "b", "c"))
    rank = process_rank(devices).rank
    order = EpochOrder(IMAGES, BATCH, 0, rank=rank, num_ranks=devices)
    torch.manual_seed(0)
    model = SimCLR(
        encoder=nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten()),
        projection_head=nn.Sequential(nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 6)),
        loss=CASES[case](gather=devices > 1),
        augmentation=Shifted(),
        normalization=nn.Identity(),
        learning_rate=0.01,
        total_steps=EPOCHS * len(order),
        seed=0,
    )
    journal = fit_in_folder(
        model,
        StoreBatches(store, order),
        RunFolder(folder, "a test"),
        epochs=EPOCHS,
        device=torch.device("cpu"),
        devices=devices,
    )
    weights = {name: value for name, value in model.state_dict().items() if torch.is_tensor(value)}
    return {"weights": weights, "losses": [row["loss"] for row in journal.rows]}


def train_all(parent: Path, devices: int) -> dict[str, dict[str, object]]:
    """Train every case, each in a folder of its own."""
    results = {}
    for number, name in enumerate(CASES):
        own = parent / str(number)
        own.mkdir(parents=True, exist_ok=True)
        results[name] = train(name, own, devices)
    return results


if __name__ == "__main__":
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
    torch.set_num_threads(1)
    out, ranks = Path(sys.argv[1]), int(sys.argv[2])
    torch.save(train_all(out, ranks), out / f"rank{process_rank(ranks).rank}.pt")
