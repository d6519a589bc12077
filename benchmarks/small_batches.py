"""What helps small batches: moving denominators, a queue of candidates, or a cached large batch.

    BAYESCL_DATA=data python benchmarks/small_batches.py

An encoder learns written digits (scikit-learn) and spoken ones (``examples/sound.py``) by InfoNCE
with steps that encode two views of 32, 64 or 256 items at once:

- InfoNCE: the batch alone;
- moving denominators: ``MovingDenominators`` at its default rate;
- queue: ``CandidateQueue`` with 1,024 keys of a slowly moving copy of the encoder, as in MoCo;
- cached: ``cached_backward`` over 256 items, encoded 32 or 64 at a time.

All have equal epochs, and Adam with a learning rate that grows with the root of the items in a step
of the optimizer. For each, one of three temperatures is chosen on a validation part, by the
accuracy with five labels per class; with it, encoders are trained on all training items with other
seeds, and scored on the test part. Finished runs are lines of ``runs/small-batches.jsonl``, so it
can be stopped. Writes ``benchmarks/results/small-batches.json``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from harness import RESULTS, Journal, options, write_json
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.encoders import ProjectionHead, SmallConvEncoder
from bayescl_lab.images.feature_probes import ProbeData, few_label_probe, knn_probe
from bayescl_lab.images.subsets import stratified_split

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import sound

BATCHES, TEMPERATURES, LARGE, CLASSES = (32, 64, 256), (0.1, 0.25, 0.5), 256, 10
METHODS = ("InfoNCE", "moving denominators", "queue", "cached")
CELLS = [
    (data, batch, method)
    for data, batch, method in product(("digits", "spoken digits"), BATCHES, METHODS)
    if method != "cached" or batch < LARGE  # what is cached would be the batch itself
]


class Task(NamedTuple):
    """Training and test items, how a view of some items is drawn, and an encoder of them."""

    items: Tensor
    labels: Tensor
    test: Tensor
    test_labels: Tensor
    view: Callable[[Tensor, int], Tensor]
    encoder: Callable[[], nn.Module]
    epochs: int


@cache
def task_of(data: str, on: str) -> Task:
    """Written or spoken digits; for validation, a fifth of the training items is tested on."""
    if data == "digits":
        written, noise = load_digits(), AffineNoise(0.75)
        images = torch.tensor(written.images * (255 / 16)).to(torch.uint8)[:, None]
        labels = torch.tensor(written.target)
        seen, unseen = stratified_split(labels, share=0.7, seed=0)
        parts = [images[seen], labels[seen], images[unseen], labels[unseen]]
        how = (lambda rows, seed: noise(rows, seed=seed)), partial(SmallConvEncoder, width=16), 12
    else:
        train, test = sound.spoken_digits()
        parts = [train.pictures, train.words, test.pictures, test.words]
        how = (lambda rows, _: sound.view(rows)), sound.encoder, 6
    if on == "validation":
        fit, held = stratified_split(parts[1], share=0.8, seed=1)
        parts = [part[rows] for rows in (fit, held) for part in parts[:2]]
    return Task(*parts, *how)


def trained(task: Task, method: str, batch: int, temperature: float, seed: int) -> nn.Module:
    """An encoder, trained."""
    torch.manual_seed(seed)
    encoder, size = task.encoder(), len(task.items)
    network = nn.Sequential(encoder, ProjectionHead(64))
    moving = bayescl.MovingDenominators(size) if method == "moving denominators" else None
    loss = bayescl.InfoNCELoss(temperature=temperature, denominators=moving)
    teacher, queue = copy.deepcopy(network), bayescl.CandidateQueue(1024, 128)
    own = LARGE if method == "cached" else batch
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3 * (own / LARGE) ** 0.5)
    per_epoch = size // own
    steps = task.epochs * per_epoch
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    order = torch.empty(0)
    # Each cached chunk holds both views of its items, so that BatchNorm sees what others see.
    in_order = torch.arange(2 * own).view(-1, 2, batch).transpose(0, 1).reshape(2, own)
    for step in range(steps):
        if step % per_epoch == 0:
            order = torch.randperm(size)
        rows = order[step % per_epoch * own :][:own]
        views = task.view(task.items[rows.repeat(2)], seed * steps + step)  # the first, the second
        optimizer.zero_grad()
        if method == "cached":
            pairs = zip(*(view.split(batch) for view in views.chunk(2)), strict=True)
            chunks = [torch.cat(pair) for pair in pairs]
            bayescl.cached_backward(lambda every: loss(*every[in_order]), network, chunks)
        elif method == "queue":
            with torch.no_grad():
                keys = teacher(views)
            extra = queue.candidates
            first, second = zip(network(views).chunk(2), reversed(keys.chunk(2)), strict=True)
            value = loss.in_batch(*first, extra=extra) + loss.in_batch(*second, extra=extra)
            (value / 2).backward()
            queue.enqueue(F.normalize(keys))
        else:
            indices = None if moving is None else rows
            loss(*network(views).chunk(2), indices=indices).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
    return encoder.eval()


def scores(data: str, batch: int, method: str, on: str, t: float, seed: int) -> dict[str, float]:
    """Train and score, in percent."""
    task = task_of(data, on)
    encoder = trained(task, method, batch, t, seed)
    with torch.no_grad():
        scale = 255 if task.items.dtype == torch.uint8 else 1
        features = [encoder(part / scale) for part in (task.items, task.test)]
    known = ProbeData(features[0], task.labels, features[1], task.test_labels, CLASSES)
    found = {"knn": 100 * knn_probe(known)}
    for few in (1, 5):
        score = few_label_probe(known, labels_per_class=few, draws=50)
        found[f"few_label_{few}"] = 100 * score.mean
    return found


def record_of(cell: tuple[str, int, str], seeds: int, runs: Path) -> dict[str, Any]:
    """Choose a temperature, train, score, and keep every run."""
    torch.set_num_threads(1)
    journal = Journal(runs, key=itemgetter("run"))

    def run(*setting: Any) -> dict[str, float]:
        key = [*cell, *setting]
        if key not in journal:
            journal.add({"run": key, "scores": scores(*cell, *setting)})
        return journal[key]["scores"]

    tried = {t: run("validation", t, 0)["few_label_5"] for t in TEMPERATURES}
    best = max(tried, key=tried.__getitem__)
    each = [run("test", best, 1 + seed) for seed in range(seeds)]
    measured = {name: mean_and_spread([one[name] for one in each]) for name in each[0]}
    named = dict(zip(("data", "batch", "method"), cell, strict=True))
    return {**named, "temperature": best, "validation": tried, **measured}


def main() -> None:
    """Choose, train, score and write; seeds are from 1, and settings are chosen with 0."""
    chosen = options(__doc__, seeds=2, workers=1, cells=len(CELLS), runs=Path("runs"))
    runs = chosen.runs / "small-batches.jsonl"
    tasks = (delayed(record_of)(cell, chosen.seeds, runs) for cell in CELLS[: chosen.cells])
    records = []
    for record in Parallel(chosen.workers, return_as="generator")(tasks):
        records.append(record)
        body = {"seeds": chosen.seeds, "records": records}
        print(record, write_json(RESULTS / "small-batches.json", body), flush=True)


if __name__ == "__main__":
    main()
