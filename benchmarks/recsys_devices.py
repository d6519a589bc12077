"""Recommenders on one and two processes: the difference of their weights, and seconds per epoch.

    python benchmarks/recsys_devices.py

``bayescl train ranking --devices 1`` and ``--devices 2`` train on the same random interactions with
long tails, on the CPU over gloo, with one thread per process. The difference is the largest one
between entries of the embedding tables after the last epoch, reported beside the largest entry.
Writes a dated JSON file to ``benchmarks/results``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
from recsys import options, publish, random_pairs

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.weights import read_weights

USERS, ITEMS = 1_500, 1_000
TRAIN = "--epochs 3 --batch-size 1024 --dim 64 --lr 0.01 --split none --device cpu"
CASES = {
    "mf, 256 shared, Bayesian": "--encoder mf --candidates shared --count 256 --loss bayesian",
    "mf, in batch, Bayesian": "--encoder mf --candidates in-batch --loss bayesian",
    "mf, all items, InfoNCE": "--encoder mf --candidates all --loss info_nce",
    "mf, 1 per pair, BPR": "--encoder mf --candidates per-pair --count 1 --loss bpr",
    "LightGCN, 256 shared, Bayesian": (
        "--encoder lightgcn --candidates shared --count 256 --loss bayesian"
    ),
}


def train(data: Path, out: Path, options: str, devices: int) -> dict[str, float]:
    """Run the command and return its loss and the seconds of its epochs."""
    place = ["--data", str(data), "--out", str(out), "--devices", str(devices)]
    command = [sys.executable, "-m", "bayescl_lab.cli", "train", "ranking", *place]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*command, *TRAIN.split(), *options.split()], check=True, env=environment)
    result = json.loads((out / "result.json").read_text())
    return {name: result[name] for name in ("loss", "seconds_per_epoch")}


def compared(data: Path, folder: Path, case: str) -> dict[str, object]:
    """What one and two processes come to in one case."""
    runs = {devices: folder / f"{devices}-devices" for devices in (1, 2)}
    figures = {devices: train(data, out, CASES[case], devices) for devices, out in runs.items()}
    one, two = (read_weights(RunFolder.find(out)) for out in runs.values())
    names = ("encoder.user_table", "encoder.item_table")
    return {
        "case": case,
        "largest_difference": max(float((one[name] - two[name]).abs().max()) for name in names),
        "largest_entry": max(float(one[name].abs().max()) for name in names),
        "loss": [figures[devices]["loss"] for devices in runs],
        "seconds_per_epoch": [round(figures[devices]["seconds_per_epoch"], 2) for devices in runs],
    }


def main() -> None:
    """Train, compare, print and write."""
    chosen = options(__doc__, pairs=40_000)
    with tempfile.TemporaryDirectory() as place:
        data = Path(place, "pairs.csv")
        users, items = random_pairs(USERS, ITEMS, chosen.pairs)
        pl.DataFrame({"user": users, "item": items}).write_csv(data)
        rows = [compared(data, Path(place, str(number)), case) for number, case in enumerate(CASES)]
    sizes = {"users": USERS, "items": ITEMS, "pairs": chosen.pairs}
    publish("recsys-devices", rows, sizes=sizes, training=TRAIN, cores=os.cpu_count())


if __name__ == "__main__":
    main()
