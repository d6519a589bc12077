"""Losses on the 50,000 photographs of CIFAR-10 with ResNet-18, in ten minutes of one GPU.

    python benchmarks/photographs.py --data data/cifar10-jpeg.tar.gz
    python benchmarks/photographs.py --device cpu --quick

Trains the runs of ``RUNS`` in order of importance, as ``bayescl train images`` does, and adds a
line to a journal after each. It stops after ``--minutes``; the next call skips finished runs and
resumes interrupted ones. On a GPU, short trials first decide whether steps are captured as CUDA
graphs and how many processes train side by side; the next call with the same ``--runs`` keeps to
that.

``--data`` is a folder with ``train`` and ``test``, each with a folder of JPEG files per class, or a
``.tar.gz`` file of such a folder. The images are decoded once, by all cores. ``--quick`` trains a
small encoder on scikit-learn's digits instead. It writes into a folder of ``--runs`` unless
``--out`` names another one. ``--summary`` only writes the summary of the journal again, for example
after lines of another machine were added to it.
"""

from __future__ import annotations

import gc
import json
import logging
import multiprocessing
import os
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from harness import Journal, means, options, text, write_json

from bayescl_lab._cores import usable_cores
from bayescl_lab.images.folder import load_folder
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_run import ImageRun, train_images
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES, LossSettings
from bayescl_lab.runs.provenance import provenance

ROOT = Path(__file__).parents[1]
PLACE = (ROOT / "results/photographs").resolve()
JOURNAL = "photographs.jsonl"
PROBES = ("few_label_1", "few_label_5", "knn", "linear")

SHARED: dict[str, Any] = {
    "encoder": "resnet18",
    "stride": 2,
    "hidden_dim": 512,
    "augmentation": "simclr",
    "epochs": 40,
    "batch_size": 256,
    "precision": "bfloat16",
    "channels_last": True,
}
QUICK: dict[str, Any] = {
    **SHARED,
    "encoder": "small",
    "width": 4,
    "hidden_dim": 16,
    "epochs": 1,
    "batch_size": 64,
    "precision": "float32",
    "max_train_images": 128,
}
TRIAL: dict[str, Any] = {"epochs": 6, "max_train_images": 30 * SHARED["batch_size"]}
ANSWER_SECONDS = 90.0  # longest wait for a trial
SIDE_BY_SIDE = 4  # largest number of processes on one GPU
EVALUATION_SECONDS = 25.0
"""Allowance for what a run does beside its steps, probes among it."""
RANKS = {"tau_plus": 0.1, "alpha": 0.9, "beta": 0.9}


@dataclass(frozen=True)
class Planned:
    """A run of the study; ``changes`` are settings that differ from the shared ones."""

    name: str
    loss: str
    temperature: float
    hyperparameters: dict[str, float] = field(default_factory=dict)
    positive_share: float = 1.0
    seed: int = 0
    changes: dict[str, Any] = field(default_factory=dict)

    def settings(self, shared: dict[str, Any], **others: Any) -> ImageSettings:
        """The settings of the run, where changes of ``others`` come last."""
        loss = LossSettings(self.loss, {"temperature": self.temperature, **self.hyperparameters})
        own = {"positive_share": self.positive_share, "seed": self.seed}
        return ImageSettings(loss=loss, **{**shared, **own, **self.changes, **others})


FIRST = (
    Planned("InfoNCE, teacher .5", "info_nce", 0.2, positive_share=0.5),
    Planned("InfoNCE, teacher .2", "info_nce", 0.2, positive_share=0.2),
    Planned("InfoNCE, t .5", "info_nce", 0.5),
    Planned("Bayesian, t .5", "bayesian", 0.5, RANKS, changes={"ranks": "upper"}),
    Planned("InfoNCE", "info_nce", 0.2),
    Planned("Bayesian", "bayesian", 0.2, RANKS),
    Planned("oracle", "oracle", 0.2),
    Planned("hard, t .5", "hard", 0.5, {"tau_plus": 0.1}),
    Planned("debiased, t .5", "debiased", 0.5, {"tau_plus": 0.1}),
    Planned("SupCon", "supervised", 0.2),
    Planned("Bayesian, teacher .5", "bayesian", 0.2, {**RANKS, "beta": 0.5}, positive_share=0.5),
)
"""Runs in order of importance. The temperature is 0.2 unless the name has another."""
RESNET50 = {"encoder": "resnet50", "stride": 1}
LONGER = [FIRST[0], FIRST[4], FIRST[5], FIRST[1]]
RUNS = (
    *FIRST,
    *(replace(it, seed=1) for it in FIRST),
    *(replace(it, name=f"{it.name}, 100 epochs", changes={"epochs": 100}) for it in LONGER),
    *(replace(it, name=f"{it.name}, ResNet-50", changes=RESNET50) for it in LONGER),
)


# Data: decoded once, into one file that all runs read.


def prepared(data: Path, target: Path) -> Path:
    """Decode the photographs of a folder or archive into an ``.npz`` file, and return it."""
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory() as folder:
        if data.is_file():
            with tarfile.open(data) as archive:
                archive.extractall(folder, filter="data")
            data = next(Path(folder).rglob("train")).parent
        store, is_test, _ = load_folder(data)
    arrays = {"images": store.items, "labels": store.labels, "is_train": ~is_test}
    return written(target, **{name: array.numpy() for name, array in arrays.items()})


def digits(target: Path) -> Path:
    """Write scikit-learn's digits as an ``.npz`` file of 32 x 32 pixels, and return it."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = (bunch.images[:600] / 16 * 255).astype(np.uint8).repeat(4, 1).repeat(4, 2)
    images = pixels[:, None].repeat(3, 1)
    return written(target, images=images, labels=bunch.target[:600], is_train=np.arange(600) < 400)


def written(target: Path, **arrays: np.ndarray) -> Path:
    """Write an ``.npz`` file, complete or not at all, and return it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f"{os.getpid()}-{target.name}")
    np.savez(aside, **arrays)
    aside.replace(target)
    return target


# Workers: processes that train one run after the other.


def work(tasks: Connection) -> None:
    """Do tasks until there are no more, and answer each with its result or a traceback."""
    torch.set_num_threads(1 if usable_cores() < 8 else 2)
    while (task := tasks.recv()) is not None:
        kind, settings, folder = task
        try:
            tasks.send((True, {"train": train, "trial": trial}[kind](settings, folder)))
        except Exception:
            tasks.send((False, traceback.format_exc()))
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def train(settings: ImageSettings, folder: Path) -> dict[str, Any]:
    """Train what is missing of a run, and return its result."""
    begin = time.perf_counter()

    def progress(epoch: float, loss: float | None) -> None:
        if loss is not None and (epoch % 10 == 0 or epoch == settings.epochs):
            print(f"    {folder.name}: epoch {epoch}, loss {loss:.3f}", flush=True)

    result = train_images(
        settings, folder, resume=folder.is_dir(), checkpoint_every=20, progress=progress
    )
    return {
        "settings": result.settings,
        "epochs": result.row.epochs,
        "probes": {name: score.mean for name, score in result.row.scores.items()},
        "seconds_per_epoch": result.row.seconds.mean,
        "seconds": round(time.perf_counter() - begin, 1),
        **result.origin,
    }


def trial(settings: ImageSettings, folder: Path) -> dict[str, Any]:
    """Milliseconds per step of a short run, the loss of its first epoch, and warnings."""
    warned: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: warned.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("bayescl_lab").addHandler(handler)
    run = ImageRun(settings)
    journal = run.fit(RunFolder.create(folder, "train images", {}), checkpoint_every=10**6)
    seconds = median(row["seconds"] for row in journal.rows[2:])
    ms = 1e3 * seconds / len(run.batches)
    return {"ms": ms, "loss": journal.rows[0]["loss"], "warned": warned}


class Worker:
    """A process that trains; after a failure, a new one takes its place."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.answers, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.task: Any = None

    def give(self, kind: str, settings: ImageSettings, folder: Path, task: Any = None) -> None:
        """Start a task."""
        self.task = task
        self.answers.send((kind, settings, folder))

    def answer(self, seconds: float | None = None) -> tuple[bool, Any]:
        """Wait for the answer, at most so long."""
        try:
            if not self.answers.poll(seconds):
                return False, f"no answer within {seconds} s"
            return self.answers.recv()
        except (EOFError, ConnectionError):
            return False, f"the process ended with status {self.process.exitcode}"

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()
        self.process.join()


class Study:
    """Trains the runs that are missing in a journal until the time is up."""

    def __init__(self, chosen: Any, start: float) -> None:
        self.start, self.deadline = start, start + 60 * chosen.minutes
        self.quick, self.device = chosen.quick, chosen.device
        self.runs = Path(chosen.runs)
        self.out = Path(chosen.out or (self.runs / "short" if self.quick else PLACE))
        if self.quick and self.out.resolve() == PLACE:
            raise SystemExit(f"--quick must not write into {PLACE}: pass another --out")
        self.shared = {**(QUICK if chosen.quick else SHARED), "device": chosen.device}
        self.journal = Journal(self.out / JOURNAL, key=lambda line: line["key"])
        self.finished = set(self.journal.lines)
        if (PLACE / JOURNAL).is_file():
            self.finished |= set(Journal(PLACE / JOURNAL, key=lambda line: line["key"]).lines)
        self.captured, self.ms = False, 0.0

    def say(self, text: str) -> None:
        """Print a line with the time since the start."""
        print(f"[{time.time() - self.start:6.1f} s] {text}", flush=True)

    def settings(self, planned: Planned, **others: Any) -> ImageSettings:
        """The settings of a run."""
        return planned.settings(self.shared, data=str(self.data), **others)

    def key(self, planned: Planned) -> dict[str, Any]:
        """What tells a run from others: its name, and settings of which some may be shortened."""
        settings = self.settings(planned)
        names = ("encoder", "epochs", "max_train_images", "seed")
        return {"name": planned.name, **{name: getattr(settings, name) for name in names}}

    def run(self, data: str, workers: int) -> None:
        """Prepare the data, try, and train."""
        chosen = workers or (SIDE_BY_SIDE if self.device == "cuda" else 1)
        pool = [Worker() for _ in range(chosen)]  # they import while the images are decoded
        try:
            if self.quick:
                self.data = digits(self.runs / "digits.npz")
            else:
                self.data = prepared(Path(data), self.runs / "photographs.npz")
            self.say(f"images ready: {self.data}")
            if self.device == "cuda":
                pool = self.tried(pool, bool(workers))
            self.train(pool)
        finally:
            for worker in pool:
                worker.end()

    def tried(self, pool: list[Worker], is_fixed: bool) -> list[Worker]:
        """Decide by short trials on captured steps and on processes side by side."""
        decision = self.runs / "trials.json"
        if decision.is_file() and not is_fixed:
            found = json.loads(decision.read_text(encoding="utf-8"))
            self.captured, self.ms = found["captured"], found["ms"]
            for worker in pool[found["processes"] :]:
                worker.end()
            self.say(f"as decided before: {found}")
            return pool[: found["processes"]]
        trials: list[dict[str, Any]] = []

        def speed(count: int, captured: bool) -> dict[str, Any]:
            settings = self.settings(FIRST[0], **TRIAL, captured=captured)
            folder = self.runs / f"trial-{os.getpid()}-{len(trials)}"
            for k, worker in enumerate(pool[:count]):
                worker.give("trial", settings, folder.with_name(f"{folder.name}-{k}"))
            answers = [worker.answer(ANSWER_SECONDS) for worker in pool[:count]]
            row: dict[str, Any] = {"processes": count, "captured": captured, "steps_per_s": 0.0}
            failures = [k for k, (is_done, _) in enumerate(answers) if not is_done]
            for k in failures:
                print(answers[k][1], file=sys.stderr, flush=True)
                pool[k].end()
                pool[k] = Worker()
                row["failed"] = str(answers[k][1]).strip().splitlines()[-1]
            if failures:
                return row
            total = sum(1e3 / value["ms"] for _, value in answers)
            row |= {name: answers[0][1][name] for name in ("loss", "warned")}
            return row | {"steps_per_s": round(total, 1), "ms": 1e3 / total}

        def add(count: int, captured: bool) -> dict[str, Any]:
            row = speed(count, captured)
            trials.append(row)
            self.say(f"trial {row}")
            return row

        eager, graph = add(1, captured=False), add(1, captured=True)
        if "loss" in graph and "loss" in eager and not graph["warned"]:
            is_right = abs(graph["loss"] - eager["loss"]) < 0.02 * eager["loss"]
            self.captured = is_right and graph["steps_per_s"] > eager["steps_per_s"]
        best = graph if self.captured else eager
        for count in [len(pool)] if is_fixed else range(2, len(pool) + 1):
            row = add(count, captured=self.captured)
            if row["steps_per_s"] < 1.05 * best["steps_per_s"] and not is_fixed:
                break
            best = row
        chosen = max(1, best["processes"])
        self.ms = chosen * best.get("ms", 0.0)
        found = {"processes": chosen, "captured": self.captured, "ms": self.ms}
        decision.write_text(json.dumps(found), encoding="utf-8")
        self.say(f"decided: {found}")
        stamp = {"key": {"trial": self.start}, "trials": trials, **provenance()}
        self.journal.add(stamp)
        for worker in pool[chosen:]:
            worker.end()
        return pool[:chosen]

    def fits(self, planned: Planned) -> bool:
        """Whether a run is expected to end in time, as far as that is known."""
        settings = self.settings(planned)
        images = settings.max_train_images or 50_000
        seconds = settings.epochs * (images // settings.batch_size) * self.ms / 1e3
        if settings.encoder == "resnet50":
            seconds *= 12  # of stride 1, in place of ResNet-18 of stride 2
        return not self.ms or time.time() + seconds + EVALUATION_SECONDS < self.deadline

    def train(self, pool: list[Worker]) -> None:
        """Train runs in order, as many at a time as there are workers."""
        pending = [it for it in RUNS if text(self.key(it)) not in self.finished]
        failed: set[str] = set()
        if self.quick:
            pending = [it for it in pending if it in FIRST]
        idle = list(pool)
        while True:
            for worker in list(idle):
                planned = next(filter(self.fits, pending), None)
                if planned is None or time.time() > self.deadline:
                    break
                pending.remove(planned)
                idle.remove(worker)
                self.say(f"start {planned.name}, seed {planned.seed}")
                captured = self.captured and text(self.key(planned)) not in failed
                settings = self.settings(planned, captured=captured)
                worker.give("train", settings, self.folder(planned), task=planned)
            busy = [worker for worker in pool if worker not in idle]
            if not busy:
                return
            answering = wait([one.answers for one in busy], max(0.0, self.deadline - time.time()))
            if not answering:
                self.say("the time is up")
                return
            for worker in [one for one in busy if one.answers in answering]:
                planned, (is_done, value) = worker.task, worker.answer()
                if is_done:
                    self.keep(planned, value, side_by_side=len(pool))
                else:
                    print(value, file=sys.stderr, flush=True)
                    self.say(f"failed: {planned.name}: {str(value).strip().splitlines()[-1]}")
                    worker.end()
                    fresh = pool[pool.index(worker)] = Worker()
                    if self.captured and text(self.key(planned)) not in failed:
                        pending.insert(0, planned)  # once more, without a graph
                    failed.add(text(self.key(planned)))
                    idle.append(fresh)
                    continue
                idle.append(worker)

    def folder(self, planned: Planned) -> Path:
        """The folder of a run."""
        key = "-".join(str(value) for value in self.key(planned).values())
        return self.runs / key.lower().replace(",", "").replace(" ", "-").replace(".", "")

    def keep(self, planned: Planned, result: dict[str, Any], *, side_by_side: int) -> None:
        """Add the line of a finished run to the journal, and write the summary."""
        kept = ("settings", "probes", "seconds_per_epoch", "seconds", "epochs", "versions")
        line = {"key": self.key(planned), "side_by_side": side_by_side}
        line |= {name: result[name] for name in (*kept, "hardware", "commit")}
        line["settings"] = {**line["settings"], "data": "cifar10-jpeg"}
        self.journal.add(line)
        figures = "  ".join(f"{100 * line['probes'][name]:.1f}" for name in PROBES)
        seconds = f"{line['seconds_per_epoch']:.2f} s an epoch, {line['seconds']:.0f} s in all"
        self.say(f"DONE {planned.name}, seed {planned.seed}: {figures}; {seconds}")
        self.summarize()

    def summarize(self) -> None:
        """Write the summary of the journal; its provenance is the provenance of the last run."""
        runs = [line for line in self.journal.lines.values() if "probes" in line]
        origin = {name: runs[-1][name] for name in ("versions", "hardware", "commit")}
        write_json(self.out / "photographs.json", {**origin, "runs": summary(runs)})


def summary(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings, mean and spread over seeds of every probe, by run."""
    settings = {
        it.name: {
            "loss": LOSSES[it.loss].title,
            "temperature": it.temperature,
            "positive_share": it.positive_share,
        }
        for it in RUNS
    }
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        about = {name: value for name, value in line["key"].items() if name != "seed"}
        groups.setdefault(text(about), []).append(line)
    records = [
        {
            **json.loads(about),
            **settings.get(json.loads(about)["name"], {}),
            "seeds": len(group),
            "probes": means((line["probes"] for line in group), PROBES),
            "seconds_per_epoch": median(line["seconds_per_epoch"] for line in group),
            "commits": sorted({line["commit"] for line in group}),
        }
        for about, group in groups.items()
    ]
    return sorted(
        records, key=lambda one: (-one.get("temperature", 0), -one.get("positive_share", 0))
    )


def main() -> None:
    """Train until the time is up."""
    start = time.time()
    chosen = options(
        __doc__,
        "quick",
        "summary",
        data=str(ROOT / "data/cifar10-jpeg"),
        out="",
        runs=str(ROOT / "runs/photographs"),
        minutes=9.0,
        workers=0,
        device="cuda" if torch.cuda.is_available() else "cpu",
    )
    study = Study(chosen, start)
    if chosen.summary:
        study.summarize()
        return
    study.run(chosen.data, chosen.workers)
    study.say(f"{len(study.journal.lines)} lines in {study.out / JOURNAL}")


if __name__ == "__main__":
    main()
