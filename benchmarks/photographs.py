"""Losses on all 50,000 photographs of CIFAR-10 (JPEG), with a small residual network.

    python benchmarks/photographs.py

The photographs are in ``data/cifar10-jpeg``. A run is ``bayescl train images``, about 20 minutes of
one core. The script can be stopped and called again: a run continues from its checkpoint, and
finished ones stay in a journal.

Temperatures and hyper-parameters were chosen on a validation part of 4,000 images
(``results/cifar10-jpeg/settings.json``). The oracle that attracts has the oracle's
temperature.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

from harness import Journal, write_json

from bayescl_lab.compare.summary import summarise

HERE = Path(__file__).parent
ROOT = HERE.parent
PLACE = ROOT / "results/cifar10-jpeg"
SHARED = (
    "--channels-last --augmentation simclr --strength 1 --epochs 15 --batch-size 512 --device cpu"
)
RUNS = [
    ("info_nce", 0),
    ("bayesian", 0),
    ("oracle", 0),
    ("info_nce", 1),
    ("bayesian", 1),
    ("hard", 0),
    ("debiased", 0),
    ("oracle", 1),
    ("attracting_oracle", 0),
]


def train(name: str, seed: int, chosen: dict[str, Any]) -> dict[str, Any]:
    """Train what is missing of one run, and return its result."""
    folder = ROOT / "runs/photographs" / f"{name.replace(' ', '-')}-seed{seed}"
    command = [str(Path(sys.executable).with_name("bayescl")), "train", "images"]
    command += ["--out", str(folder), "--encoder", "small_resnet:build"]
    if (folder / "config.yaml").is_file():
        command += ["--resume"]
    else:
        values = chosen["oracle" if name == "attracting_oracle" else name]
        options = {"data": "data/cifar10-jpeg", "loss": name, "seed": seed, **values}
        for option, value in options.items():
            command += [f"--{option.replace('_', '-')}", str(value)]
        command += SHARED.split()
    path = f"{HERE}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"  # of small_resnet
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": path})
    result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {key: result[key] for key in ("commit", "settings", "probes", "seconds_per_epoch")}


def main() -> None:
    """Train what is missing, and write after each run."""
    chosen = json.loads((PLACE / "settings.json").read_text(encoding="utf-8"))["choice"]["losses"]
    done = Journal(PLACE / "photographs.jsonl", key=itemgetter(0))
    for name, seed in RUNS:
        if [name, seed] not in done:
            done.add([[name, seed], train(name, seed, chosen)])
        finished = [
            {**result, "seed": seed, "settings": {**result["settings"], "loss": name}}
            for (name, seed), result in done.lines.values()
        ]
        runs = {f"{name}-seed{seed}": result for (name, seed), result in done.lines.values()}
        write_json(PLACE / "photographs.json", {"summary": summarise(finished), "runs": runs})


if __name__ == "__main__":
    main()
