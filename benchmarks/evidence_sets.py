"""The data of ``evidence.py``: what is drawn of each set, by which network, and how it is judged.

A set gives training rows, two views of some of them, a network and scores of its features.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

sys.path.append(str(Path(__file__).parents[1] / "examples"))

import sound
from intents.questions import find_data, load_questions
from intents.training import BagEncoder, precisions

from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.encoders import ProjectionHead, SmallConvEncoder
from bayescl_lab.images.probes import (
    ProbeData,
    few_label_probe,
    knn_probe,
    linear_probe,
)
from bayescl_lab.images.subsets import stratified_split

CLASSES = {"digits": 10, "words": 10, "speakers": 6, "cifar10-jpeg": 10, "questions": 77}
"""Of each set: written digits; spoken digits by word, and by speaker; photographs; and questions of
bank customers."""
PROBES = ("few_label_1", "few_label_5", "knn", "linear")
RETRIEVAL = ("precision_1", "precision_10", "precision_100", "few_label_1", "few_label_5")
_DRAWS = 30
_CIFAR = {"validation": 4000, "test": 5000}


@dataclass(frozen=True)
class DataSet:
    """One set, ready for training."""

    labels: Tensor  # of training rows
    views: Callable[[Tensor], tuple[object, object]]  # two views of some rows
    plain: Callable[[Tensor], object]  # these rows as they are
    network: Callable[[], tuple[nn.Module, nn.Module]]  # an encoder, and a head for training
    features: Callable[[nn.Module], tuple[Tensor, Tensor]]  # of training and of other rows
    evaluated: Tensor  # labels of the latter
    epochs: int
    batch_size: int = 256
    learning_rate: float = 1e-3  # of Adam; it follows a cosine down to 0
    scores: tuple[str, ...] = PROBES  # beside ``own``

    def judged(self, features: Tensor, evaluated: Tensor) -> dict[str, float]:
        """Every score of :attr:`scores`, in [0, 1]."""
        count = int(self.labels.max()) + 1
        data = ProbeData(features, self.labels, evaluated, self.evaluated, count)
        scores = {
            f"few_label_{n}": few_label_probe(data, labels_per_class=n, draws=_DRAWS).mean
            for n in (1, 5)
        }
        if self.scores == RETRIEVAL:
            new, known = (F.normalize(rows, dim=1) for rows in (evaluated, features))
            return scores | precisions(new, self.evaluated, known, self.labels)
        return scores | {"knn": knn_probe(data), "linear": linear_probe(data).top_1}


@cache
def data_set(name: str, evaluate_on: str) -> DataSet:
    """Load a set; ``evaluate_on`` is "validation", a part of the training rows, or "test"."""
    if name == "questions":
        return _questions(evaluate_on)
    if name in ("words", "speakers"):
        return _sounds(name, evaluate_on)
    limit = None if name == "digits" else _CIFAR[evaluate_on]
    place = name if name == "digits" else str(_shared() / name)
    parts = load_images(place, evaluate_on=evaluate_on, max_train_images=limit)
    train, test = parts.train, parts.evaluation
    grey = name == "digits"
    return _pictures(
        train.images,
        train.labels,
        test.images,
        test.labels,
        augmentation=AffineNoise(0.75) if grey else SimCLRAugmentation(1.0, None),
        network=lambda: SmallConvEncoder(1, 32) if grey else SmallConvEncoder(3, 32, 2),
        epochs=30 if grey else 15,
    )


def _shared() -> Path:
    """Where the data are."""
    return Path(os.environ.get("BAYESCL_DATA", "data"))


def _pictures(
    images: Tensor,
    labels: Tensor,
    unseen: Tensor,
    truth: Tensor,
    *,
    augmentation: nn.Module,
    network: Callable[[], SmallConvEncoder],
    epochs: int,
) -> DataSet:
    pixels = images.float() / 255
    mean, deviation = (f(pixels, dim=(0, 2, 3), keepdim=True) for f in (torch.mean, torch.std))

    def normalised(views: Tensor) -> Tensor:
        return (views - mean) / deviation

    def views(rows: Tensor) -> tuple[Tensor, Tensor]:
        seeds = torch.randint(2**31, (2,)).tolist()
        first, second = (augmentation(images[rows], seed=seed) for seed in seeds)
        return normalised(first), normalised(second)

    def made() -> tuple[nn.Module, nn.Module]:
        encoder = network()
        return encoder, ProjectionHead(encoder.feature_dim, 256, 128)

    def plain(rows: Tensor) -> Tensor:
        return normalised(pixels[rows])

    def features(encoder: nn.Module) -> tuple[Tensor, Tensor]:
        return _embedded(encoder, normalised(pixels)), _embedded(
            encoder, normalised(unseen.float() / 255)
        )

    return DataSet(labels, views, plain, made, features, truth, epochs)


def _sounds(name: str, evaluate_on: str) -> DataSet:
    """Views of words move the pitch, by which speakers differ; views of speakers do not."""
    train, test = _recordings()
    if evaluate_on == "validation":
        both = train.words * 6 + train.speakers
        rest, held_out = stratified_split(both, share=0.8, seed=0)
        train, test = train.at(torch.as_tensor(rest)), train.at(torch.as_tensor(held_out))
    pitch = 0.15 if name == "words" else 0.0

    def views(rows: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (sound.view(train.pictures[rows], pitch) for _ in range(2))
        return first, second

    def network() -> tuple[nn.Module, nn.Module]:
        return sound.encoder(), ProjectionHead(64, 128, 64)

    def features(encoder: nn.Module) -> tuple[Tensor, Tensor]:
        return _embedded(encoder, train.pictures), _embedded(encoder, test.pictures)

    return DataSet(
        getattr(train, name),
        views,
        lambda rows: train.pictures[rows],
        network,
        features,
        getattr(test, name),
        epochs=30,
        learning_rate=2e-3,
    )


_recordings = cache(sound.spoken_digits)


def _questions(evaluate_on: str) -> DataSet:
    parts = load_questions(find_data(), evaluate_on=evaluate_on)
    train, new = parts.train, parts.evaluation

    def views(rows: Tensor) -> tuple[object, object]:
        first, second = (train.take(rows, dropout=0.3) for _ in range(2))
        return first, second

    def network() -> tuple[nn.Module, nn.Module]:
        return BagEncoder(parts.num_features), nn.Identity()

    def features(encoder: nn.Module) -> tuple[Tensor, Tensor]:
        return encoder.embed(train), encoder.embed(new)

    return DataSet(
        train.labels,
        views,
        train.take,
        network,
        features,
        new.labels,
        epochs=12,
        batch_size=512,
        learning_rate=5e-3,
        scores=RETRIEVAL,
    )


@torch.no_grad()
def _embedded(encoder: nn.Module, pictures: Tensor) -> Tensor:
    return torch.cat([encoder(rows) for rows in pictures.split(512)])
