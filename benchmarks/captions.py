"""Captions in miniature: what losses make of exact pairs between sounds and images.

    BAYESCL_DATA=data python benchmarks/captions.py

Each spoken digit is paired for good with one written digit of scikit-learn of the same number, as
an image with its caption. An image tower and a sound tower learn from the pairs with ``in_batch``
in both directions; one pair in ten in a batch is a false negative. On pairs of unseen recordings
with unseen images, averaged over both directions:

- R@1: the nearest candidate is the exact partner,
- P@10: how many of the nearest ten are of the same number,
- zero-shot: the number of an image, by the mean embedding of training sounds of each number.

Only what a recording and its image share can find an unseen partner, and that is their number:
R@1 of unseen pairs says little. So R@1 is also measured on the training pairs, where the exact
partner has been seen, and whether it is kept is what the losses differ in.

The sigmoid losses learn their temperature and bias. They start at half the given temperature, and
with the bias at which the logit of two equal rows is 0, as open_clip's do. Both learn 30 times as
fast as the towers, and Adam forgets its second moments sooner (0.95), as in SigLIP's paper: with
the settings of the other losses they get nowhere in as many steps.

Writes ``benchmarks/results/captions.json``; records of losses that are not run again stay. Sounds
are the log-mel pictures of ``examples/sound.py``; towers are perceptrons, trained without
augmentation.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.runs.provenance import provenance

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from sound import SIDE, known, spoken_digits

BATCH, DIM, CLASSES = 256, 64, 10


def _latent(aim: str) -> Callable[[float], bayescl.ContrastiveLoss]:
    return lambda t: bayescl.LatentClassContrastiveLoss(num_classes=CLASSES, temperature=t, aim=aim)


def _sigmoid(
    kind: type[bayescl.SigmoidContrastiveLoss], **options: Any
) -> Callable[[float], bayescl.ContrastiveLoss]:
    def made(t: float) -> bayescl.ContrastiveLoss:
        bias = nn.Parameter(torch.tensor(-2 / t))
        return kind(temperature=bayescl.LearnableTemperature(t / 2), bias=bias, **options)

    return made


LOSSES: dict[str, tuple[Callable[[float], bayescl.ContrastiveLoss], int]] = {
    "InfoNCE": (lambda t: bayescl.InfoNCELoss(temperature=t), 0),
    "Bayesian": (lambda t: bayescl.BayesianContrastiveLoss(num_classes=CLASSES, temperature=t), 0),
    **{f"latent classes, {aim}": (_latent(aim), 0) for aim in ("pairs", "both", "classes")},
    **{f"latent classes, {aim}, 5 labels": (_latent(aim), 5) for aim in ("pairs", "classes")},
    "sigmoid": (_sigmoid(bayescl.SigmoidContrastiveLoss), 0),
    "sigmoid, Bayesian": (_sigmoid(bayescl.BayesianSigmoidLoss, num_classes=CLASSES), 0),
    "sigmoid, latent classes": (_sigmoid(bayescl.LatentClassSigmoidLoss, num_classes=CLASSES), 0),
    "oracle": (lambda t: bayescl.OracleContrastiveLoss(temperature=t), 0),
    "attracting oracle": (lambda t: bayescl.AttractingOracleContrastiveLoss(temperature=t), 0),
}
"""How each loss is made at a temperature, and how many labels of each number it knows."""


class Pairs:
    """Sounds ``[pairs, 1, mel, time]``, their images ``[pairs, 1, 8, 8]`` and their numbers."""

    def __init__(self, sounds: Tensor, images: Tensor, numbers: Tensor) -> None:
        self.sounds, self.images, self.numbers = sounds, images, numbers


recordings = cache(spoken_digits)


def paired(seed: int) -> tuple[Pairs, Pairs]:
    """Training and unseen pairs: an image is the partner of one recording or of none."""
    generator = torch.Generator().manual_seed(seed)
    data, test = recordings()
    written = load_digits()
    images = torch.tensor(written.images, dtype=torch.float32).unsqueeze(1) / 16
    numbers = torch.tensor(written.target)
    seen: list[list[Tensor]] = [[], []]
    for number in range(CLASSES):
        drawings = (numbers == number).nonzero().squeeze(1)
        drawings = drawings[torch.randperm(len(drawings), generator=generator)]
        for place, (part, some) in enumerate(((data, drawings[30:]), (test, drawings[:30]))):
            sounds = (part.words == number).nonzero().squeeze(1)
            sounds = sounds[torch.randperm(len(sounds), generator=generator)][: len(some)]
            seen[place].append(torch.stack([sounds, some[: len(sounds)]], dim=1))
    parts = []
    for part, rows in zip((data, test), seen, strict=True):
        sounds, drawings = torch.cat(rows).unbind(1)
        parts.append(Pairs(part.pictures[sounds], images[drawings], numbers[drawings]))
    return parts[0], parts[1]


def tower(coordinates: int) -> nn.Sequential:
    """A perceptron with two layers."""
    return nn.Sequential(nn.Flatten(), nn.Linear(coordinates, 256), nn.ReLU(), nn.Linear(256, DIM))


def scores(name: str, temperature: float, epochs: int, seed: int) -> dict[str, float]:
    """Train two towers with a loss and score them."""
    made, per_class = LOSSES[name]
    loss = made(temperature)
    data, unseen = paired(seed)
    labels = known(data.numbers, per_class, seed) if per_class else None
    torch.manual_seed(seed)
    towers = nn.ModuleList([tower(8 * 8), tower(SIDE * SIDE)])
    groups: list[dict[str, Any]] = [{"params": list(towers.parameters())}]
    if isinstance(loss, bayescl.SigmoidContrastiveLoss):
        groups[0]["betas"] = (0.9, 0.95)
        groups.append({"params": list(loss.parameters()), "lr": 3e-2})
    optimizer = torch.optim.Adam(groups, lr=1e-3)
    batches = len(data.numbers) // BATCH
    for _ in range(epochs):
        for rows in torch.randperm(len(data.numbers)).split(BATCH)[:batches]:
            value = loss.in_batch(
                towers[0](data.images[rows]),
                towers[1](data.sounds[rows]),
                groups=data.numbers[rows] if loss.needs_groups else None,
                labels=None if labels is None else labels[rows],
                both_directions=True,
            )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    towers.eval()
    with torch.no_grad():
        seen, new = (
            [F.normalize(towers[0](part.images)), F.normalize(towers[1](part.sounds))]
            for part in (data, unseen)
        )
    found = {"r_1_seen": _exact(seen), "r_1": _exact(new), "p_10": _same(new, unseen.numbers)}
    means = torch.stack([seen[1][data.numbers == number].mean(0) for number in range(CLASSES)])
    guesses = (new[0] @ F.normalize(means).T).argmax(1)
    found["zero_shot"] = float((guesses == unseen.numbers).float().mean())
    if isinstance(loss, bayescl.LatentClassContrastiveLoss):
        found["trust"] = loss.trust
    return found


def _exact(rows: list[Tensor]) -> float:
    """R@1, the mean of both directions."""
    similarity, own = rows[0] @ rows[1].T, torch.arange(len(rows[0]))
    each = [(one.argmax(1) == own).float().mean() for one in (similarity, similarity.T)]
    return float(sum(each) / 2)


def _same(rows: list[Tensor], numbers: Tensor) -> float:
    """P@10 of the same number, the mean of both directions."""
    similarity = rows[0] @ rows[1].T
    nearest = [one.topk(10, dim=1).indices for one in (similarity, similarity.T)]
    return float(sum((numbers[some] == numbers[:, None]).float().mean() for some in nearest) / 2)


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """An older result with new records in place of those of the same losses, or after the others.

    Raises:
        ValueError: if they were made with other settings.
    """
    for name in ("seeds", "epochs"):
        if old[name] != new[name]:
            raise ValueError(f"{name} must be {old[name]} to add to these results, got {new[name]}")
    origin = {"command": new["command"], "started": new["started"], "commit": new["commit"]}
    records = {(one["loss"], one["temperature"]): one for one in old["records"]}
    for one in new["records"]:
        records[one["loss"], one["temperature"]] = {**one, "made": origin}
    return {**old, "records": list(records.values())}


def main(arguments: list[str] | None = None) -> None:
    """Train, score and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="from 1")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[0.1])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    origin, console = provenance(), Console()
    records: list[dict[str, Any]] = []
    pool = ProcessPoolExecutor(options.seeds, get_context("spawn"), torch.set_num_threads, (1,))
    for temperature in options.temperatures:
        for name in options.losses:
            run = partial(scores, name, temperature, options.epochs)
            each = list(pool.map(run, range(1, 1 + options.seeds)))
            record: dict[str, Any] = {"temperature": temperature, "loss": name}
            for figure in each[0]:
                values = [one[figure] for one in each]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                record[figure] = {"mean": statistics.mean(values), "spread": spread}
            records.append(record)
            figures = ", ".join(f"{key} {record[key]['mean']:.3f}" for key in each[0])
            console.print(f"t {temperature:g}, {name}: {figures}", soft_wrap=True)
    pool.shutdown()
    content = {"seeds": options.seeds, "epochs": options.epochs, "records": records, **origin}
    file = options.results / "captions.json"
    if file.exists():
        content = merged(json.loads(file.read_text(encoding="utf-8")), content)
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
