"""Is a loss safe where the strongest clusters of the data are a nuisance that nobody wants?

    python benchmarks/nuisance.py
    python benchmarks/nuisance.py --data marks --temperatures 0.25 --seeds 1

Scikit-learn's digits with a mark in one of six corners, on one of six smooth backgrounds or under
stripes of one of six slants, which both views of an image share; vectors of ten classes that were
measured in 6 or in 20 batches, each of which moves them all; plain digits; and, if they are in
``$BAYESCL_DATA``, spoken digits of known speakers, in views that keep the pitch, and questions,
whose nuisance nobody knows.

Every finished run is a line of ``benchmarks/results/nuisance.jsonl``; what is there is not run
again. Writes ``benchmarks/results/nuisance.json``, means and spreads over seeds.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict, astuple, dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from evidence_sets import DataSet, data_set
from harness import RESULTS, Journal, options, write_json
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.encoders import ProjectionHead, SmallConvEncoder
from bayescl_lab.images.probes import ProbeData, knn_probe

SETS = ("marks", "backgrounds", "stripes", "batches-6", "batches-20", "plain", "words", "questions")
TITLES = {
    "info_nce": "InfoNCE",
    "info_nce_domains": "InfoNCE, domains",
}
METHODS = tuple(TITLES)
EPOCHS = 30
NUISANCES, SIDE = 6, 8  # of each kind, and pixels of an image
UNNAMED = ("plain", "questions")  # sets without a nuisance that could be named
_DATA = Path(os.environ.get("BAYESCL_DATA", "data"))
_FILES = {"words": "spoken-digits.tar.gz", "questions": "banking77"}
WIDTH, VECTORS = 64, {"train": 2000, "validation": 1000, "test": 1000}


@dataclass(frozen=True)
class Case:
    """One run."""

    data: str  # one of SETS
    method: str  # one of METHODS
    temperature: float
    head: bool  # whether there is a projection head
    batch: int
    seed: int


@dataclass(frozen=True)
class WithNuisance(DataSet):
    """A set whose rows have a nuisance beside their class."""

    nuisance: Tensor | None = None  # of training rows
    evaluated_nuisance: Tensor | None = None

    def judged(self, features: Tensor, evaluated: Tensor) -> dict[str, float]:
        """The scores of the class, and how well neighbours tell the nuisance."""
        scores = super().judged(features, evaluated)
        if self.nuisance is None or self.evaluated_nuisance is None:
            return scores
        count = int(self.nuisance.max()) + 1
        data = ProbeData(features, self.nuisance, evaluated, self.evaluated_nuisance, count)
        return scores | {"nuisance_knn": knn_probe(data)}


def overlays(kind: str) -> Tensor:
    """What is laid over an image, of each nuisance, ``[nuisances, 1, side, side]`` in [0, 1]."""
    pictures = torch.zeros(NUISANCES, 1, SIDE, SIDE)
    places = torch.linspace(-1, 1, SIDE)
    if kind == "marks":
        for picture, (row, column) in zip(pictures, product((0, 6), (0, 3, 6)), strict=True):
            picture[0, row : row + 2, column : column + 2] = 1
    elif kind == "backgrounds":
        coarse = torch.rand(NUISANCES, 1, 3, 3, generator=torch.Generator().manual_seed(0))
        pictures = 0.6 * F.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 1)
    elif kind == "stripes":
        slants = torch.arange(NUISANCES) * math.pi / NUISANCES
        along = slants.cos()[:, None, None] * places + slants.sin()[:, None, None] * places[:, None]
        pictures = 0.25 * (1 + (2.5 * math.pi * along).sin())[:, None]
    return pictures


@cache
def nuisance_set(name: str, evaluate_on: str) -> WithNuisance:
    """One of :data:`SETS`, judged on "validation" rows, where settings are chosen, or on "test"."""
    if name == "words":
        return _words(evaluate_on)
    if name == "questions":
        return WithNuisance(**_parts(data_set(name, evaluate_on)))
    if name.startswith("batches"):
        return _vectors(int(name.split("-")[1]), evaluate_on)
    parts = load_images("digits", evaluate_on=evaluate_on)
    train, evaluation = parts.labelled()
    augmentation, drawn = AffineNoise(0.75), torch.Generator().manual_seed(1)
    numbers = [
        torch.randint(NUISANCES, (len(part),), generator=drawn) for part in (train, evaluation)
    ]
    over = overlays(name)

    def shown(images: Tensor, numbers: Tensor) -> Tensor:
        return torch.maximum(
            images.float(), over[numbers] + 0.05 * torch.randn(len(images), 1, 1, 1)
        )

    def views(rows: Tensor) -> tuple[Tensor, Tensor]:
        seeds = torch.randint(2**31, (2,)).tolist()
        first, second = (
            shown(augmentation(train.images[rows], seed=seed), numbers[0][rows]) for seed in seeds
        )
        return first, second

    plain = [
        torch.maximum(part.images / 255, over[number])
        for part, number in zip((train, evaluation), numbers, strict=True)
    ]

    def network() -> tuple[nn.Module, nn.Module]:
        encoder = SmallConvEncoder(1, 16)
        return encoder, ProjectionHead(encoder.feature_dim, 128, 64)

    nuisance = (None, None) if name == "plain" else numbers
    return WithNuisance(
        train.labels,
        views,
        lambda rows: plain[0][rows],
        network,
        lambda encoder: _embedded(encoder, *plain),
        evaluation.labels,
        epochs=EPOCHS,
        nuisance=nuisance[0],
        evaluated_nuisance=nuisance[1],
    )


def _vectors(batches: int, evaluate_on: str) -> WithNuisance:
    """Vectors that their class, their batch and they themselves add to, seen by a random map."""
    drawn = torch.Generator().manual_seed(batches)
    classes, moved = (torch.randn(count, 16, generator=drawn) for count in (10, batches))
    map_ = torch.randn(48, WIDTH, generator=drawn) / 48**0.5
    made = {}
    for part, count in VECTORS.items():
        labels = torch.randint(10, (count,), generator=drawn)
        numbers = torch.randint(batches, (count,), generator=drawn)
        own = torch.randn(count, 16, generator=drawn)
        content = torch.cat([classes[labels], 3 * moved[numbers], own], dim=1)
        made[part] = torch.tanh(content @ map_), labels, numbers
    (rows_of, labels, numbers), (unseen, truth, unseen_numbers) = made["train"], made[evaluate_on]

    def views(rows: Tensor) -> tuple[Tensor, Tensor]:
        first, second = (rows_of[rows] + 0.3 * torch.randn(len(rows), WIDTH) for _ in range(2))
        return first, second

    def network() -> tuple[nn.Module, nn.Module]:
        layers = nn.Linear(WIDTH, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128)
        return nn.Sequential(*layers, nn.BatchNorm1d(128), nn.ReLU()), ProjectionHead(128, 256, 128)

    return WithNuisance(
        labels,
        views,
        lambda rows: rows_of[rows],
        network,
        lambda encoder: _embedded(encoder, rows_of, unseen),
        truth,
        epochs=EPOCHS,
        nuisance=numbers,
        evaluated_nuisance=unseen_numbers,
    )


def _words(evaluate_on: str) -> WithNuisance:
    """Spoken digits in views that keep the pitch, by which speakers differ."""
    words, speakers = (data_set(name, evaluate_on) for name in ("words", "speakers"))
    parts = _parts(speakers) | {"labels": words.labels, "evaluated": words.evaluated}
    nuisances = {"nuisance": speakers.labels, "evaluated_nuisance": speakers.evaluated}
    return WithNuisance(**parts, **nuisances)


def _parts(data: DataSet) -> dict[str, Any]:
    return {field.name: getattr(data, field.name) for field in fields(DataSet)}


@torch.no_grad()
def _embedded(encoder: nn.Module, *parts: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.cat([encoder(rows) for rows in part.split(512)]) for part in parts)


def train(
    data: DataSet,
    loss: nn.Module,
    *,
    seed: int,
    head: bool,
    batch: int,
    call: Any = None,
) -> dict[str, float]:
    """Train an encoder in place and score it; ``call`` makes arguments of a step from its rows."""
    torch.manual_seed(seed)
    encoder, projection = data.network()
    projection = projection if head else nn.Identity()
    optimizer = torch.optim.Adam(
        [*encoder.parameters(), *projection.parameters()], lr=data.learning_rate
    )
    steps = len(data.labels) // batch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, data.epochs * steps)
    for _ in range(data.epochs):
        for rows in torch.randperm(len(data.labels)).split(batch)[:steps]:
            first, second = (projection(encoder(view)) for view in data.views(rows))
            value = loss(first, second, **(call(rows) if call else {}))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
    return data.judged(*data.features(encoder.eval()))


def run(case: Case) -> dict[str, Any]:
    """Train, judge and return the record of a case."""
    data = nuisance_set(case.data, "test")
    domains = data.nuisance if case.method.endswith("domains") else None
    call = None if domains is None else lambda rows: {"domains": domains[rows]}
    how = {"seed": case.seed, "head": case.head, "batch": case.batch}
    loss = bayescl.InfoNCELoss(temperature=case.temperature)
    return asdict(case) | {"scores": train(data, loss, call=call, **how)}


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means and spreads over seeds, and of differences from InfoNCE by seed."""
    about = ("data", "method", "temperature", "head", "batch")
    cells: dict[tuple[Any, ...], dict[int, dict[str, float]]] = {}
    for line in lines:
        cell = tuple(line[name] for name in about)
        cells.setdefault(cell, {})[line["seed"]] = line["scores"]
    records = []
    order = {name: place for place, name in enumerate((*SETS, *METHODS))}
    for cell in sorted(cells, key=lambda cell: [order.get(value, value) for value in cell]):
        runs = cells[cell]
        base = cells.get((cell[0], "info_nce", *cell[2:]), {})
        names = next(iter(runs.values()))
        record = dict(zip(about, cell, strict=True)) | {"loss": TITLES[cell[1]], "seeds": len(runs)}
        record["scores"] = {name: _spread([run[name] for run in runs.values()]) for name in names}
        if shared := [seed for seed in runs if seed in base]:
            record["above_info_nce"] = {
                name: _spread([runs[seed][name] - base[seed][name] for seed in shared])
                for name in names
            }
        records.append(record)
    return records


def _spread(values: list[float]) -> dict[str, float]:
    return mean_and_spread(values) if len(values) > 1 else {"mean": values[0]}


def main() -> None:
    """Run what is missing, and write the summary."""
    chosen = options(
        __doc__,
        data=[name for name in SETS if name not in _FILES or (_DATA / _FILES[name]).exists()],
        methods=list(METHODS),
        temperatures=[0.25],
        batches=[256],
        heads=[1],
        seeds=3,
    )
    torch.set_num_threads(1)
    names = [field.name for field in fields(Case)]
    journal = Journal(RESULTS / "nuisance.jsonl", lambda line: [line[name] for name in names])
    axes = range(1, 1 + chosen.seeds), chosen.data, chosen.methods
    settings = chosen.temperatures, chosen.heads, chosen.batches
    for seed, data, method, temperature, head, batch in product(*axes, *settings):
        case = Case(data, method, temperature, bool(head), batch, seed)
        if not (data in UNNAMED and method.endswith("domains")) and astuple(case) not in journal:
            journal.add(run(case))
            print(journal.lines[list(journal.lines)[-1]], flush=True)
    records = summary(list(journal.lines.values()))
    write_json(RESULTS / "nuisance.json", {"epochs": EPOCHS, "records": records})


if __name__ == "__main__":
    main()
