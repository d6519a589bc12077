"""Latent classes with a wrong number of classes, and with classes of unequal size.

    python benchmarks/latent_robustness.py

On digits, with the settings chosen for ten equal classes: the loss is told half or double the
number of classes, and half of the classes keep one image in five. InfoNCE and the oracle that
leaves false negatives out are scored on the same images. Finished runs are kept in ``runs/``.

Writes ``benchmarks/results/latent-robustness.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rivals.library import (
    LossSettings,
    mean_and_spread,
    provenance,
    train_runs,
    usable_cores,
)

from bayescl_lab.compare.images import PLANS
from bayescl_lab.runs.images.run import train_images

PROBES = ("few_label_1", "few_label_5", "knn", "linear")
CLASSES = 10
SMALL_CLASSES = range(5, CLASSES)
KEPT = 5
"""Of the small classes, one image in so many is kept."""

RESULTS = Path(__file__).parent.parent / "results" / "digits" / "settings.json"


def unequal_digits(path: Path) -> Path:
    """Write digits whose second half of the classes is a fifth as large."""
    digits = load_digits()
    rows = np.arange(len(digits.target))
    kept = np.concatenate(
        [
            rows[digits.target == label][:: KEPT if label in SMALL_CLASSES else 1]
            for label in range(CLASSES)
        ]
    )
    kept.sort()
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, images=digits.images[kept] / 16, labels=digits.target[kept])
    return path


def main(arguments: list[str] | None = None) -> None:
    """Train, score and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4, help="from 0")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--runs", type=Path, default=Path("runs/latent-robustness"))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    origin = provenance()
    chosen = json.loads(RESULTS.read_text(encoding="utf-8"))["choice"]
    unequal = str(unequal_digits(options.runs / "unequal.npz"))

    def settings(data: str, loss: str, seed: int, classes: int | None) -> Any:
        values = dict(chosen["losses"][loss])
        if classes is not None:
            values["tau_plus"] = 1 / classes
        made = PLANS["digits"].settings("info_nce", {}, chosen["shared"], seed=seed, data=data)
        return replace(made, loss=LossSettings(loss, values), evaluate_on="test")

    cases = {"equal": "digits", "5:1": unequal}
    told: tuple[tuple[str, int | None], ...] = (
        ("info_nce", None),
        ("latent", CLASSES // 2),
        ("latent", CLASSES),
        ("latent", 2 * CLASSES),
        ("oracle", None),
    )
    names = {
        (case, loss, classes): f"{case.replace(':', 'to')}-{loss}-{classes or 'no'}-classes"
        for case in cases
        for loss, classes in told
    }
    runs = {
        f"{name}-seed{seed}": settings(cases[case], loss, seed, classes)
        for seed in range(options.seeds)
        for (case, loss, classes), name in names.items()
    }
    results = train_runs(runs, options.runs / "runs", train=train_images, workers=options.workers)
    records = []
    for (case, loss, classes), name in names.items():
        of_case = [results[f"{name}-seed{seed}"]["probes"] for seed in range(options.seeds)]
        scores = {probe: mean_and_spread([100 * one[probe] for one in of_case]) for probe in PROBES}
        records.append({"sizes": case, "loss": loss, "told_classes": classes, **scores})
    for record in records:
        low, high = (
            next(one for one in records if (one["sizes"], one["loss"]) == (record["sizes"], loss))
            for loss in ("info_nce", "oracle")
        )
        for probe in PROBES[:2]:
            gap = high[probe]["mean"] - low[probe]["mean"]
            record[f"{probe}_gap_closed"] = (record[probe]["mean"] - low[probe]["mean"]) / gap
    file = options.results / "latent-robustness.json"
    content = {"seeds": options.seeds, "records": records, **origin}
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
