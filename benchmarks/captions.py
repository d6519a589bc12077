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

import json
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from harness import RESULTS, options, write_json
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.runs.provenance import provenance

sys.path.append(str(Path(__file__).parents[1] / "examples"))
from sound import SIDE, known, spoken_digits

BATCH, DIM, CLASSES = 256, 64, 10

Made = Callable[[float], bayescl.ContrastiveLoss]


def _latent(aim: str) -> Made:
    return lambda t: bayescl.LatentClassContrastiveLoss(num_classes=CLASSES, temperature=t, aim=aim)


def _sigmoid(t: float) -> bayescl.ContrastiveLoss:
    bias = nn.Parameter(torch.tensor(-2 / t))
    temperature = bayescl.LearnableTemperature(t / 2)
    return bayescl.SigmoidContrastiveLoss(temperature=temperature, bias=bias)


LOSSES: dict[str, tuple[Made, int]] = {
    "InfoNCE": (lambda t: bayescl.InfoNCELoss(temperature=t), 0),
    "Bayesian": (lambda t: bayescl.BayesianContrastiveLoss(num_classes=CLASSES, temperature=t), 0),
    **{f"latent classes, {aim}": (_latent(aim), 0) for aim in ("pairs", "classes")},
    **{f"latent classes, {aim}, 5 labels": (_latent(aim), 5) for aim in ("pairs", "classes")},
    "sigmoid": (_sigmoid, 0),
    "oracle": (lambda t: bayescl.OracleContrastiveLoss(temperature=t), 0),
    "attracting oracle": (lambda t: bayescl.SupervisedContrastiveLoss(temperature=t), 0),
}
"""How each loss is made at a temperature, and how many labels of each number it knows."""


class Pairs(NamedTuple):
    """Sounds ``[pairs, 1, mel, time]``, their images ``[pairs, 1, 8, 8]`` and their numbers."""

    sounds: Tensor
    images: Tensor
    numbers: Tensor


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
    """Train two towers with a loss on one thread, and score them."""
    torch.set_num_threads(1)
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
    found = {"r_1_seen": _nearest(seen, 1, torch.arange(len(seen[0])))}
    found |= {"r_1": _nearest(new, 1, torch.arange(len(new[0])))}
    found |= {"p_10": _nearest(new, 10, unseen.numbers)}
    means = torch.stack([seen[1][data.numbers == number].mean(0) for number in range(CLASSES)])
    guesses = (new[0] @ F.normalize(means).T).argmax(1)
    found["zero_shot"] = float((guesses == unseen.numbers).float().mean())
    if isinstance(loss, bayescl.LatentClassContrastiveLoss):
        found["trust"] = loss.trust
    return found


def _nearest(rows: list[Tensor], count: int, classes: Tensor) -> float:
    """Share of the nearest rows of the other side that are of a row's class, both ways."""
    similarity = rows[0] @ rows[1].T
    nearest = [side.topk(count, dim=1).indices for side in (similarity, similarity.T)]
    return float(sum((classes[near] == classes[:, None]).float().mean() for near in nearest) / 2)


def main() -> None:
    """Train, score and write; seeds are from 1."""
    chosen = options(__doc__, seeds=2, temperatures=[0.1], losses=list(LOSSES), epochs=100)
    file = RESULTS / "captions.json"
    old = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"records": []}
    records = {(record["loss"], record["temperature"]): record for record in old["records"]}
    parallel = Parallel(chosen.seeds)
    for temperature, name in product(chosen.temperatures, chosen.losses):
        seeds = range(1, 1 + chosen.seeds)
        runs = parallel(delayed(scores)(name, temperature, chosen.epochs, seed) for seed in seeds)
        figures = {key: mean_and_spread([run[key] for run in runs]) for key in runs[0]}
        record = {"temperature": temperature, "loss": name, "epochs": chosen.epochs, **figures}
        records[name, temperature] = {**record, "made": provenance()}
        print(record, flush=True)
    write_json(file, {"records": list(records.values())})


if __name__ == "__main__":
    main()
