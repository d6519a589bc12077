"""What helps small batches: moving denominators, a queue of candidates, or a cached large batch.

    BAYESCL_DATA=data python benchmarks/small_batches.py

An encoder learns written digits (scikit-learn) and spoken ones (``examples/sound.py``) by InfoNCE
with steps that encode 32, 64 or 256 items at once:

- InfoNCE: the batch alone;
- moving denominators: ``MovingDenominators`` at its default rate;
- queue: ``CandidateQueue`` with 1,024 keys of a slowly moving copy of the encoder, as in MoCo;
- cached: ``cached_backward`` over batches of 256, encoded 32 or 64 at a time.

All have equal epochs, and Adam with a rate that grows with the root of the items in a step of the
optimizer. For each, one of three temperatures is chosen on a validation part, by the accuracy with
five labels per class; it is then trained on all training items with other seeds and scored on the
test part. Each finished run is a line of ``runs/small-batches.jsonl``, so it can be stopped.

Writes ``benchmarks/results/small-batches.json``.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from sklearn.datasets import load_digits
from torch import Tensor, nn

import bayescl
from bayescl_lab._files import write_atomically
from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.encoders import SmallConvEncoder
from bayescl_lab.images.few_label_probe import few_label_probe
from bayescl_lab.images.heads import ProjectionHead
from bayescl_lab.images.knn_probe import knn_probe
from bayescl_lab.images.subsets import stratified_split
from bayescl_lab.runs.provenance import provenance

sys.path.append(str(Path(__file__).parents[1] / "examples"))
import sound

BATCHES, TEMPERATURES, LARGE, CLASSES = (32, 64, 256), (0.1, 0.25, 0.5), 256, 10
PROBES = ("few_label_5", "few_label_1", "knn")
METHODS = {
    "InfoNCE": BATCHES,
    "moving denominators": BATCHES,
    "queue": BATCHES,
    "cached": BATCHES[:-1],
}
"""The batches with which each is tried; at 256, what is cached would be the batch itself."""


class Task(NamedTuple):
    """Training and test items, how a view of some items is drawn, and an encoder of them."""

    items: Tensor
    labels: Tensor
    test: Tensor
    test_labels: Tensor
    view: Callable[[Tensor, int], Tensor]
    encoder: Callable[[], nn.Module]
    width: int
    epochs: int


@cache
def tasks(name: str) -> Task:
    """Written or spoken digits."""
    if name == "spoken digits":
        data, test = sound.spoken_digits()
        parts = (data.pictures, data.words, test.pictures, test.words)
        return Task(*parts, lambda rows, _: sound.view(rows), sound.encoder, 64, 12)
    written = load_digits()
    images = torch.tensor(written.images * (255 / 16)).to(torch.uint8)[:, None]
    labels, noise = torch.tensor(written.target), AffineNoise(0.75)
    seen, unseen = stratified_split(labels, share=0.7, seed=0)
    parts = (images[seen], labels[seen], images[unseen], labels[unseen])
    encoder = partial(SmallConvEncoder, width=16)
    return Task(*parts, lambda rows, seed: noise(rows, seed=seed), encoder, 64, 20)


def part_of(task: Task, on: str) -> Task:
    """The task itself, or one whose test items are a fifth of the training items."""
    if on == "test":
        return task
    fit, held = stratified_split(task.labels, share=0.8, seed=1)
    items, labels = task.items, task.labels
    return task._replace(
        items=items[fit], labels=labels[fit], test=items[held], test_labels=labels[held]
    )


def trained(task: Task, method: str, batch: int, temperature: float, seed: int) -> nn.Module:
    """An encoder, trained."""
    torch.manual_seed(seed)
    encoder, size = task.encoder(), len(task.items)
    network = nn.Sequential(encoder, ProjectionHead(task.width))
    moving = bayescl.MovingDenominators(size) if method == "moving denominators" else None
    loss = bayescl.InfoNCELoss(temperature=temperature, denominators=moving)
    teacher, queue = copy.deepcopy(network), bayescl.CandidateQueue(1024, 128)
    own = LARGE if method == "cached" else batch
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3 * (own / LARGE) ** 0.5)
    steps = task.epochs * (size // own)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        if step % (size // own) == 0:
            order = torch.randperm(size)
        rows = order[step % (size // own) * own :][:own]
        views = [task.view(task.items[rows], 2 * (seed * steps + step) + k) for k in range(2)]
        optimizer.zero_grad()
        if method == "cached":
            bayescl.cached_backward(loss, network, *(each.split(batch) for each in views))
        elif method == "queue":
            with torch.no_grad():
                keys = [teacher(each) for each in views]
            for each, key in zip(views, reversed(keys), strict=True):
                (0.5 * loss.in_batch(network(each), key, extra=queue.candidates)).backward()
            queue.enqueue(torch.nn.functional.normalize(torch.cat(keys)))
        else:
            given = {} if moving is None else {"indices": rows}
            loss(*(network(each) for each in views), **given).backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), network.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
    return encoder.eval()


def scores(data: str, on: str, *setting: Any) -> dict[str, float]:
    """Train and score, in percent, with the seconds it took."""
    task, began = part_of(tasks(data), on), time.perf_counter()
    encoder = trained(task, *setting)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        scale = 255 if task.items.dtype == torch.uint8 else 1
        features = [encoder(part / scale) for part in (task.items, task.test)]
    known = (features[0], task.labels, features[1], task.test_labels)
    found = {
        f"few_label_{few}": few_label_probe(
            *known, num_classes=CLASSES, labels_per_class=few, draws=50
        ).mean
        for few in (1, 5)
    }
    found["knn"] = knn_probe(*known, num_classes=CLASSES)
    return {name: 100 * value for name, value in found.items()} | {"seconds": seconds}


def main(arguments: list[str] | None = None) -> None:
    """Choose, train, score and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="from 1; settings are chosen with 0")
    parser.add_argument("--runs", type=Path, default=Path("runs/small-batches.jsonl"))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    origin, console = provenance(), Console()
    torch.set_num_threads(1)
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    lines = options.runs.read_text().splitlines() if options.runs.exists() else []
    finished = {tuple(line["run"]): line["scores"] for line in map(json.loads, lines)}

    def run(*setting: Any) -> dict[str, float]:
        if setting not in finished:
            finished[setting] = scores(*setting)
            with options.runs.open("a") as file:
                file.write(json.dumps({"run": setting, "scores": finished[setting]}) + "\n")
        return finished[setting]

    records: list[dict[str, Any]] = []
    for data, batch in itertools.product(("digits", "spoken digits"), BATCHES):
        for method in (name for name, sizes in METHODS.items() if batch in sizes):
            tried = {
                t: run(data, "validation", method, batch, t, 0)["few_label_5"] for t in TEMPERATURES
            }
            best = max(tried, key=tried.__getitem__)
            each = [run(data, "test", method, batch, best, 1 + k) for k in range(options.seeds)]
            record: dict[str, Any] = {"data": data, "batch": batch, "method": method}
            record |= {"temperature": best, "validation": tried}
            for figure in (*PROBES, "seconds"):
                values = [one[figure] for one in each]
                spread = statistics.stdev(values) if len(values) > 1 else 0.0
                record[figure] = {"mean": statistics.mean(values), "spread": spread}
            records.append(record)
            figures = ", ".join(f"{key} {record[key]['mean']:.1f}" for key in (*PROBES, "seconds"))
            console.print(f"{data}, {batch}, {method}, t {best}: {figures}", soft_wrap=True)
    content = {"seeds": options.seeds, "records": records, **origin}
    write_atomically(options.results / "small-batches.json", json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
