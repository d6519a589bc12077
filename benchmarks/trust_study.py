"""How well trust predicts that pairs taken for one class are of one class.

    python benchmarks/trust_study.py

InfoNCE trains, and a latent-class loss observes: it fits classes and computes trust without
affecting training. So trust can be compared with the precision of its pairs, even where it is too
low to act. The data are digits, CIFAR-10 (JPEG) if available, and short questions in pairs of one
intent and as two views of one question; encoders, views, temperatures and batches vary. Every batch
of the second half of an epoch is evaluated. Labels are used only to evaluate.

Writes ``benchmarks/results/trust-study.json``, one record per epoch of each run, as they finish;
the next call continues from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent))

from intents.questions import find_data, load_questions
from intents.training import TextSettings, fit
from rivals.library import (
    PLANS,
    EpochOrder,
    ImageSettings,
    LossSettings,
    RunFolder,
    StoreBatches,
    as_json,
    build_model,
    fit_in_folder,
    load_images,
    provenance,
    write_atomically,
)

import bayescl
from bayescl import functional as F

PAIRS = ("right", "sure", "same", "pairs")
CIFAR = Path("data/cifar10-jpeg")
BINS = {"0": (-1.0, 0.0), "0 to 0.5": (0.0, 0.5), "0.5 to 1": (0.5, 0.999), "1": (0.999, 1.0)}
"""Trust above the first and up to the second number."""


class Onlooker(nn.Module):
    """InfoNCE that trains, with a latent-class loss that looks on.

    Args:
        temperature: of InfoNCE.
        num_classes: that the latent-class loss is told.
    """

    needs_groups = True

    def __init__(self, temperature: float, num_classes: int) -> None:
        super().__init__()
        self.trained = bayescl.InfoNCELoss(temperature=temperature)
        self.looking = bayescl.LatentClassContrastiveLoss(num_classes=num_classes)
        self.counts: list[dict[str, float]] = []
        """Of each batch: trust, agreement, and pairs that are sure and right."""

    def forward(self, view_1: Tensor, view_2: Tensor, *, groups: Tensor) -> Tensor:
        """InfoNCE of two views."""
        self._look(self.looking, view_1, view_2, groups)
        return self.trained(view_1, view_2)

    def in_batch(self, anchors: Tensor, positives: Tensor, *, groups: Tensor) -> Tensor:
        """InfoNCE of pairs."""
        self._look(self.looking.in_batch, anchors, positives, groups)
        return self.trained.in_batch(anchors, positives)

    @torch.no_grad()
    def _look(self, call: Callable[..., Tensor], first: Tensor, second: Tensor, of: Tensor) -> None:
        """Let the other loss learn from the batch, after its pairs were judged."""
        memory = self.looking.memory
        classes = memory.classes
        call(first.detach(), second.detach())
        if classes is None or memory.agreement is None:
            return
        items, _ = F.item_responsibilities(first.detach(), second.detach(), classes)
        believed = torch.ones(len(classes.sizes))
        posterior = F.same_class(items, items, trust=believed, transitions=classes.transitions)
        others = ~torch.eye(len(of), dtype=torch.bool)
        same = (of[:, None] == of) & others
        sure = (posterior > self.looking.threshold) & others
        found = ((sure & same).sum(), sure.sum(), same.sum(), others.sum())
        self.counts.append(
            {
                "trust": self.looking.trust,
                "agreement": float(memory.agreement.mean()),
                **{name: int(count) for name, count in zip(PAIRS, found, strict=True)},
            }
        )


@dataclass(frozen=True)
class Study:
    """One run that is looked on.

    Attributes:
        data: the table's name for the data.
        setting: what is unlike the first setting of these data.
        train: trains by a loss, with a seed.
        num_classes: that the loss is told.
        temperature: of InfoNCE.
        epochs: of the run.
    """

    data: str
    setting: str
    train: Callable[[nn.Module, int], None]
    num_classes: int
    temperature: float
    epochs: int

    def records(self, seed: int) -> list[dict[str, Any]]:
        """Train, and return one record for each epoch in which there was a fit."""
        torch.manual_seed(seed)
        loss = Onlooker(self.temperature, self.num_classes)
        self.train(loss, seed)
        size = -(-len(loss.counts) // self.epochs)
        kept = []
        for epoch in range(self.epochs):
            batches = loss.counts[epoch * size : (epoch + 1) * size]
            batches = batches[len(batches) // 2 :]
            if not batches:
                continue
            right, sure, same, pairs = (sum(batch[name] for batch in batches) for name in PAIRS)
            kept.append(
                {
                    "data": self.data,
                    "setting": self.setting,
                    "seed": seed,
                    "epoch": epoch + 1,
                    "trust": sum(batch["trust"] for batch in batches) / len(batches),
                    "agreement": sum(batch["agreement"] for batch in batches) / len(batches),
                    "precision": right / sure if sure else None,
                    "recall": right / same,
                    "by_chance": same / pairs,
                }
            )
        return kept


@dataclass(frozen=True)
class _Images:
    """Trains SimCLR on images."""

    settings: ImageSettings

    def __call__(self, loss: nn.Module, seed: int) -> None:
        settings = replace(self.settings, seed=seed)
        parts = load_images(settings.data, evaluate_on="validation", **settings.choice_of_images())
        order = EpochOrder(len(parts.train), settings.batch_size, settings.seed)
        model = build_model(settings, parts.train, steps_per_epoch=len(order))
        model.loss = loss
        with tempfile.TemporaryDirectory() as place:
            folder = RunFolder.create(Path(place) / "run", "benchmark", settings.as_config())
            fit_in_folder(
                model,
                StoreBatches(parts.train, order),
                folder,
                epochs=settings.epochs,
                device=settings.torch_device(),
                checkpoint_every=settings.epochs,
            )


@dataclass(frozen=True)
class _Questions:
    """Trains a bag of words on questions."""

    settings: TextSettings
    folder: Path = field(default_factory=find_data)

    def __call__(self, loss: nn.Module, seed: int) -> None:
        parts = load_questions(self.folder, evaluate_on="validation")
        fit(replace(self.settings, seed=seed), parts, loss=loss)


def studies() -> Iterator[Study]:
    """Everything that is looked on."""
    shared = json.loads(
        (Path(__file__).parent.parent / "results/digits/settings.json").read_text(encoding="utf-8")
    )["choice"]["shared"]
    digits = PLANS["digits"].settings("info_nce", {}, shared, seed=0)
    yield from _of_images("digits", digits, DIGITS)
    if CIFAR.is_dir():
        cifar = replace(
            PLANS["cifar10-jpeg"].settings("info_nce", {}, {"lr": 1e-3}, seed=0),
            data=str(CIFAR),
            loss=LossSettings("info_nce", {}),
            width=16,
            channels_last=True,
        )
        yield from _of_images("CIFAR-10 (JPEG)", cifar, CIFAR10)
    for pairs, changes in QUESTIONS:
        text = TextSettings("info_nce", {}, pairs=pairs, **{"lr": 0.02, **changes})
        yield Study(
            f"questions, {TITLES[pairs]}",
            _words(changes),
            _Questions(text),
            num_classes=77,
            temperature=0.1,
            epochs=text.epochs,
        )


def _of_images(
    data: str, settings: ImageSettings, every: tuple[Mapping[str, Any], ...]
) -> Iterator[Study]:
    for changes in every:
        options = dict(changes)
        loss = {"temperature": 0.25, "num_classes": 10}
        loss |= {name: options.pop(name) for name in loss if name in options}
        changed = replace(settings, **options)
        yield Study(data, _words(changes), _Images(changed), epochs=changed.epochs, **loss)


def _words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in changes.items()) or "as tuned"


DIGITS: tuple[Mapping[str, Any], ...] = (
    {},
    {"width": 1},
    {"width": 4},
    {"strength": 0.1},
    {"strength": 1.5},
    {"strength": 3.0},
    {"temperature": 0.1},
    {"temperature": 0.7},
    {"batch_size": 64},
    {"num_classes": 5},
    {"num_classes": 20},
)
CIFAR10: tuple[Mapping[str, Any], ...] = ({}, {"strength": 0.3}, {"num_classes": 20})
QUESTIONS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("intents", {}),
    ("intents", {"head": "linear"}),
    ("intents", {"batch_size": 128}),
    ("views", {}),
    ("views", {"dropout": 0.6}),
    ("views", {"head": "linear"}),
)
TITLES = {"intents": "pairs of one intent", "views": "two views of one"}


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Say what the pairs were in epochs of much and of little trust."""
    judged = [record for record in records if record["precision"] is not None]
    rows = []
    for title, (low, high) in BINS.items():
        some = [record for record in judged if low < record["trust"] <= high]
        if not some:
            continue
        precision = torch.tensor([record["precision"] for record in some])
        recall = torch.tensor([record["recall"] for record in some])
        rows.append(
            {
                "trust": title,
                "epochs": len(some),
                "data_sets": len({record["data"] for record in some}),
                "precision_lowest": float(precision.min()),
                "precision_tenth": float(precision.quantile(0.1)),
                "precision_median": float(precision.median()),
                "precision_highest": float(precision.max()),
                "recall_median": float(recall.median()),
            }
        )
    agreement, precision = (
        [record[name] for record in judged] for name in ("agreement", "precision")
    )
    return {"by_trust": rows, "rank_correlation": float(spearmanr(agreement, precision).statistic)}


def main(arguments: list[str] | None = None) -> None:
    """Look on, and write what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="from 1000; none of a comparison")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    path = options.results / "trust-study.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"records": []}
    records, done = list(before["records"]), {tuple(run) for run in before.get("runs", [])}
    origin = provenance()
    for seed in range(1000, 1000 + options.seeds):
        for study in studies():
            run = (study.data, study.setting, seed)
            if run in done:
                continue
            records += study.records(seed)
            done.add(run)
            found = {
                **summary(records),
                "records": records,
                "runs": sorted(done),
                "command": "python benchmarks/trust_study.py",
                **{name: value for name, value in origin.items() if name != "command"},
            }
            write_atomically(path, as_json(found))
            sys.stderr.write(f"{len(done)} runs: {', '.join(map(str, run))}\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
