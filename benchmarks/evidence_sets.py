"""The data of ``evidence.py``: items, views of them, a network, and how its features are evaluated.

    BAYESCL_DATA=data python benchmarks/evidence_sets.py FOLDER

The command copies into a folder what the runs read from ``$BAYESCL_DATA``: recordings as arrays,
which load at once, and the questions. Sets whose data are absent cannot be loaded; all others are
made from scikit-learn's digits or from random numbers.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import sound
from questions import BagEncoder, Questions, find_data, load_questions, precisions

from bayescl_lab._downloads import data_folder
from bayescl_lab.images.encoders import SmallConvEncoder
from bayescl_lab.items.networks import ProjectionHead
from bayescl_lab.items.probes import ProbeData, few_label_probe, knn_probe, linear_probe
from bayescl_lab.items.subsets import SEED, stratified_split

NUISANCES, SIDE = 6, 8  # kinds of a nuisance, and pixels of an image's side
CLASSES, WIDTH, VECTORS = 10, 64, (2000, 1000)  # of vectors in batches: training and test
SHIFTS = (0.3, 0.5, 0.6, 0.7, 1.0)  # how far a batch moves measurements
DRAWS = 30  # of a few-label probe
RECORDINGS = "spoken-digits.npz"


@dataclass(frozen=True)
class DataSet:
    """Items to train on and to evaluate with, on torch's default device."""

    labels: Tensor  # of training items
    truth: Tensor  # labels of the items to evaluate with
    plain: Callable[[Tensor], Any]  # some training items as they are
    unseen: Callable[[Tensor], Any]  # some of the other items
    view: Callable[[Tensor], Any]  # a random view of some training items
    network: Callable[[], tuple[nn.Module, nn.Module]]  # an encoder, and a projection head
    epochs: int = 30
    batch_size: int = 256
    learning_rate: float = 1e-3  # of Adam; it follows a cosine down to 0
    nuisance: Tensor | None = None  # of training items
    retrieval: bool = False  # whether precision is measured instead of k-NN and a linear probe

    @torch.no_grad()
    def features(self, encoder: nn.Module) -> list[Tensor]:
        """Features of the items to train on and to evaluate with."""
        encoder.eval()
        return [
            torch.cat([encoder(part(rows)) for rows in torch.arange(len(of)).split(512)]).cpu()
            for part, of in ((self.plain, self.labels), (self.unseen, self.truth))
        ]

    def scores(self, encoder: nn.Module) -> dict[str, float]:
        """Every score of an encoder, in [0, 1]."""
        features, new = self.features(encoder)
        labels, truth = self.labels.cpu(), self.truth.cpu()
        with torch.device("cpu"):
            data = ProbeData(features, labels, new, truth, int(labels.max()) + 1)
            scores = {
                f"few_label_{count}": few_label_probe(data, labels_per_class=count, draws=DRAWS)[0]
                for count in (1, 5)
            }
            if self.retrieval:
                rows, columns = (F.normalize(each, dim=1) for each in (new, features))
                return precisions(rows, truth, columns, labels) | scores
            return scores | {"knn": knn_probe(data), "linear": linear_probe(data)["linear"]}


@torch.no_grad()
def effective_rank(features: Tensor) -> float:
    """Compute RankMe of ``[items, dim]``: exp of the entropy of normalized singular values."""
    values = torch.linalg.svdvals(features.double())
    return float(torch.special.entr(values / values.sum()).sum().exp())


def affine_noise(images: Tensor, strength: float = 0.75) -> Tensor:
    """Draw a view of each image: an affine map and noise of a random level, as ``AffineNoise``."""
    count = len(images)

    def between(low: float, high: float) -> Tensor:
        return torch.empty(count, device=images.device).uniform_(low, high)

    angle, shear = (between(-1, 1) * math.radians(most * strength) for most in (15, 10))
    size = between(1 - 0.15 * strength, 1 + 0.15 * strength)
    shift = torch.stack([between(-0.2, 0.2) for _ in range(2)], dim=1) * strength
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], 1).view(-1, 2, 2)
    slant = torch.eye(2, device=images.device).repeat(count, 1, 1)
    slant[:, 0, 1] = shear.tan()
    back = torch.linalg.inv(turn @ slant * size.view(-1, 1, 1))
    places = torch.cat([back, -back @ shift[:, :, None]], dim=2)
    grid = F.affine_grid(places, list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, align_corners=False)
    level = 0.15 * strength * between(0, 1).view(-1, 1, 1, 1)
    return moved + level * torch.randn_like(moved)


def overlays(kind: str) -> Tensor:
    """Make the picture of each nuisance, ``[nuisances, 1, side, side]`` in [0, 1]."""
    pictures = torch.zeros(NUISANCES, 1, SIDE, SIDE)
    places = torch.linspace(-1, 1, SIDE)
    if kind == "marks":
        for picture, (row, column) in zip(pictures, product((0, 6), (0, 3, 6)), strict=True):
            picture[0, row : row + 2, column : column + 2] = 1
    elif kind in ("backgrounds", "removed"):
        coarse = torch.rand(NUISANCES, 1, 3, 3, generator=torch.Generator().manual_seed(0))
        level = 1.0 if kind == "removed" else 0.6
        pictures = level * F.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 1)
    elif kind == "stripes":
        slants = torch.arange(NUISANCES) * math.pi / NUISANCES
        along = slants.cos()[:, None, None] * places + slants.sin()[:, None, None] * places[:, None]
        pictures = 0.25 * (1 + (2.5 * math.pi * along).sin())[:, None]
    return pictures


def _digits(kind: str, device: torch.device) -> DataSet:
    """Written digits, with a nuisance over them; ``removed`` draws it anew for each view."""
    bunch = load_digits()
    images = torch.as_tensor(bunch.images / 16).float()[:, None]
    classes = torch.as_tensor(bunch.target)
    parts = stratified_split(classes, share=0.7, seed=SEED)
    train, new = (images[part] for part in parts)
    drawn = torch.Generator().manual_seed(1)
    numbers, new_numbers = (
        torch.randint(NUISANCES, (len(part),), generator=drawn) for part in parts
    )
    over = overlays(kind)
    plain, unseen = torch.maximum(train, over[numbers]), torch.maximum(new, over[new_numbers])
    labels, truth = (classes[part].to(device) for part in parts)
    train, plain, unseen, numbers, over = moved_to(device, train, plain, unseen, numbers, over)
    mean, deviation = float(plain.mean()), float(plain.std())

    def view(rows: Tensor) -> Tensor:
        seen = affine_noise(train[rows])
        if kind != "digits":
            number = numbers[rows]
            if kind == "removed":
                number = torch.randint(NUISANCES, (len(rows),))
            seen = torch.maximum(seen, over[number] + 0.05 * torch.randn(len(rows), 1, 1, 1))
        return (seen - mean) / deviation

    def network() -> tuple[nn.Module, nn.Module]:
        return SmallConvEncoder(1, 32), ProjectionHead(128, 256, 128)

    return DataSet(
        labels,
        truth,
        ((plain - mean) / deviation).__getitem__,
        ((unseen - mean) / deviation).__getitem__,
        view,
        network,
        nuisance=None if kind == "digits" else numbers,
    )


def in_batches(count: int, batches: int, drawn: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw the class and the batch of vectors, and what they themselves add."""
    labels = torch.randint(CLASSES, (count,), generator=drawn)
    numbers = torch.randint(batches, (count,), generator=drawn)
    return labels, numbers, torch.randn(count, 16, generator=drawn)


def moved_to(device: torch.device, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Copy tensors to a device."""
    return tuple(tensor.to(device) for tensor in tensors)


def _vectors(batches: int, device: torch.device) -> DataSet:
    """Vectors that their class, their batch and they themselves add to, seen by a random map."""
    drawn = torch.Generator().manual_seed(batches)
    classes, moved = (torch.randn(count, 16, generator=drawn) for count in (CLASSES, batches))
    map_ = torch.randn(48, WIDTH, generator=drawn) / 48**0.5

    def made(count: int) -> tuple[Tensor, ...]:
        labels, numbers, own = in_batches(count, batches, drawn)
        content = torch.cat([classes[labels], 3 * moved[numbers], own], dim=1)
        return moved_to(device, torch.tanh(content @ map_), labels, numbers)

    (train, labels, numbers), (new, truth, _) = map(made, VECTORS)

    def view(rows: Tensor) -> Tensor:
        return train[rows] + 0.3 * torch.randn(len(rows), WIDTH)

    return DataSet(
        labels, truth, train.__getitem__, new.__getitem__, view, _perceptron, nuisance=numbers
    )


def _measured(shift: float, device: torch.device) -> DataSet:
    """Vectors measured in 20 batches; a view measures the item again, in the same batch.

    Measurements of an item differ in all but the batch's contribution, which ``shift`` scales.
    """
    drawn = torch.Generator().manual_seed(20)
    classes, moved = (torch.randn(count, 16, generator=drawn) for count in (CLASSES, 20))
    content_map = torch.randn(32, WIDTH, generator=drawn) / 32**0.5
    moved = shift * moved @ torch.randn(16, WIDTH, generator=drawn) / 16**0.5

    def made(count: int) -> tuple[Tensor, ...]:
        labels, numbers, own = in_batches(count, 20, drawn)
        return moved_to(device, torch.cat([classes[labels], own], dim=1), labels, numbers)

    (train, labels, numbers), (new, truth, new_numbers) = map(made, VECTORS)
    content_map, moved = moved_to(device, content_map, moved)

    def measured(content: Tensor, numbers: Tensor) -> Tensor:
        return torch.tanh(content @ content_map + moved[numbers])

    def view(rows: Tensor) -> Tensor:
        content = train[rows]
        return measured(content + torch.randn_like(content), numbers[rows])

    plain, unseen = measured(train, numbers), measured(new, new_numbers)
    return DataSet(
        labels, truth, plain.__getitem__, unseen.__getitem__, view, _perceptron, nuisance=numbers
    )


def _perceptron() -> tuple[nn.Module, nn.Module]:
    """Make an encoder of vectors, and a projection head."""
    layers = nn.Linear(WIDTH, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128)
    return nn.Sequential(*layers, nn.BatchNorm1d(128), nn.ReLU()), ProjectionHead(128, 256, 128)


def _sounds(what: str, device: torch.device) -> DataSet:
    """Spoken digits by word or speaker; views of words move the pitch, by which speakers differ."""
    train, new = (sound.Recordings(*(each.to(device) for each in part)) for part in _recordings())
    return DataSet(
        getattr(train, what),
        getattr(new, what),
        train.pictures.__getitem__,
        new.pictures.__getitem__,
        lambda rows: sound.view(train.pictures[rows], 0.15 if what == "words" else 0.0),
        lambda: (sound.encoder(), ProjectionHead(64, 128, 64)),
        learning_rate=2e-3,
        nuisance=train.speakers if what == "words" else None,
    )


def _recordings() -> list[sound.Recordings]:
    """Training and test recordings, from arrays where they are prepared."""
    file = data_folder() / RECORDINGS
    if not file.exists():
        return list(sound.spoken_digits())
    with np.load(file) as arrays:
        everything = sound.Recordings(
            torch.from_numpy(arrays["pictures"]).float() / 255,
            *(torch.from_numpy(arrays[name]).long() for name in ("words", "speakers")),
        )
        test = torch.from_numpy(arrays["is_test"])
    return [everything.at(~test), everything.at(test)]


def _questions(device: torch.device) -> DataSet:
    """Questions of bank customers; a view lacks some of the words."""
    *parts, num_features = load_questions(find_data())
    train, new = (Questions(*(each.to(device) for each in astuple(part))) for part in parts)
    return DataSet(
        train.labels,
        new.labels,
        train.take,
        new.take,
        partial(train.take, dropout=0.3),
        lambda: (BagEncoder(num_features), nn.Identity()),
        epochs=12,
        batch_size=512,
        learning_rate=5e-3,
        retrieval=True,
    )


_LOADERS: dict[str, Callable[[torch.device], DataSet]] = {
    **{
        kind: partial(_digits, kind)
        for kind in ("digits", "marks", "stripes", "backgrounds", "removed")
    },
    "batches-20": partial(_vectors, 20),
    "batches-6": partial(_vectors, 6),
    **{f"measured-{shift}": partial(_measured, shift) for shift in SHIFTS},
    "words": partial(_sounds, "words"),
    "speakers": partial(_sounds, "speakers"),
    "questions": _questions,
}
SETS = tuple(_LOADERS)


@cache
def data_set(name: str) -> DataSet:
    """Load one of :data:`SETS` onto torch's default device."""
    device = torch.get_default_device()
    with torch.device("cpu"):  # so that the items are the same on every device
        return _LOADERS[name](device)


def why_absent(name: str) -> str | None:
    """Return why a set cannot be loaded, or ``None`` if it can."""
    if name in ("words", "speakers") and not any(
        (data_folder() / file).exists() for file in (RECORDINGS, "spoken-digits.tar.gz")
    ):
        return f"{data_folder()} has no {RECORDINGS} and no spoken-digits.tar.gz"
    if name == "questions":
        try:
            find_data()
        except ValueError as error:
            return str(error)
    return None


def main() -> None:
    """Copy what the runs read into the folder that is named."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    parts = sound.spoken_digits()
    arrays = {
        name: torch.cat([getattr(part, name) for part in parts]).numpy()
        for name in sound.Recordings._fields
    }
    arrays["pictures"] = (255 * arrays["pictures"]).round().astype(np.uint8)
    is_test = np.repeat([False, True], [len(part.words) for part in parts])
    np.savez_compressed(folder / RECORDINGS, is_test=is_test, **arrays)
    questions = find_data()
    shutil.copytree(questions, folder / questions.name, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
