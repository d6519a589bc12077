"""Losses on real measurements with domains: gas sensors, a smartwatch, blood cells.

    BAYESCL_DATA=data python benchmarks/evidence_arrays.py --minutes 30

Every run is ``bayescl train arrays`` with its default settings, except as the case says. Domains
are left out of training and evaluated on: each batch of the gas sensors and each chemistry of the
cells in turn, and folds of three or two subjects of the watch. Finished runs are lines of
``benchmarks/results/evidence_arrays.jsonl`` and are not run again; sets without data are skipped.

Writes ``benchmarks/results/evidence_arrays.json``: means over folds, and differences from InfoNCE
at the same temperature, paired by fold.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evidence_sets import effective_rank
from harness import RESULTS, Journal, by_seed, differences, means, options, write_json
from torch import nn

from bayescl_lab._downloads import data_folder
from bayescl_lab.arrays.data import load_arrays
from bayescl_lab.arrays.views import Standardization
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.probes import extract_features, run_probes
from bayescl_lab.runs.arrays.array_run import ArrayRun, train_arrays
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.losses import LossSettings, loss_of

WATCH = Path(__file__).parents[1] / "examples" / "data" / "watch.npz"
NAMED = {"label_column": "y", "domain_column": "batch"}


@dataclass(frozen=True)
class DataSet:
    """A file, the number of domains that are left out, and the number of folds."""

    file: str
    leave_out: int
    folds: int
    columns: dict[str, str]

    @property
    def path(self) -> Path:
        """Path of the file."""
        return data_folder() / self.file  # an absolute path stays


SETS = {
    "watch": DataSet(str(WATCH), 3, 4, {}),
    "cells": DataSet("pbmc.npz", 1, 3, NAMED),
    "gas": DataSet("gas.npz", 1, 8, NAMED),
}
BASELINES = ("raw", "harmony")
TITLES = {
    "raw": "features, standardized",
    "harmony": "PCA + Harmony",
    "info_nce": "InfoNCE",
    "info_nce+teacher": "InfoNCE + teacher",
    "info_nce+domains": "InfoNCE + domains",
    "info_nce+domains+teacher": "InfoNCE + domains + teacher",
    "bayesian+domains": "Bayesian + domains",
    "oracle": "oracle",
    "supervised": "SupCon",
}


@dataclass(frozen=True)
class Case:
    """One run. The seed determines the fold."""

    data: str
    method: str
    temperature: float = 0.5
    share: float = 1.0
    standardize: str = "train"
    seed: int = 0


def plan() -> list[Case]:
    """List the runs, the most important first."""
    return list(dict.fromkeys(_planned()))


def _planned() -> Iterator[Case]:
    default = [
        ("info_nce", 1.0),
        ("info_nce+domains", 1.0),
        ("info_nce+domains+teacher", 0.5),
        ("supervised", 1.0),
    ]
    more = [("info_nce+teacher", 0.5), ("bayesian+domains", 1.0), ("oracle", 1.0)]

    def cases(methods: list[tuple[str, float]], rounds: range, **about: Any) -> Iterator[Case]:
        for number in rounds:
            for name, data in SETS.items():
                for fold in range(data.folds):
                    seed = number * data.folds + fold
                    for method, share in methods:
                        yield Case(name, method, share=share, seed=seed, **about)

    yield from cases(default, range(1))
    yield from cases([(name, 1.0) for name in BASELINES], range(1))
    yield from cases([("raw", 1.0)], range(1), standardize="domain")
    yield from cases([("info_nce+domains+teacher", share) for share in (0.2, 0.1)], range(1))
    yield from cases(more, range(1))
    yield from cases(default[:3], range(1, 3))
    yield from cases(default[:1], range(1), standardize="domain")
    for temperature in (0.2, 1.0):
        yield from cases(default[:3], range(1), temperature=temperature)
    yield from cases(default[3:], range(1, 3))


def run(case: Case) -> dict[str, Any]:
    """Train, evaluate and return the record of a case, with its CPU seconds."""
    start, data = time.process_time(), SETS[case.data]
    if case.method in BASELINES:
        scores = _baseline(case, data)
    else:
        settings = ArraySettings(
            data=str(data.path),
            loss=LossSettings(loss_of(case.method), {"temperature": case.temperature}),
            leave_out=data.leave_out,
            standardize=case.standardize,  # type: ignore[arg-type]
            positive_share=case.share,
            seed=case.seed,
            device="cpu",
            teacher="items" if "+teacher" in case.method else "none",
            domains="+domains" in case.method,
            **data.columns,
        )
        with tempfile.TemporaryDirectory() as folder:
            row = train_arrays(settings, Path(folder) / "run").row
            scores = {name: score.mean for name, score in row.scores.items()}
            scores |= {f"recall: {name}": score.mean for name, score in row.recalls.items()}
            _, again, _ = ArrayRun.reopen(Path(folder) / "run")
            features = extract_features(again.model, again.parts.train)
            scores["effective_rank"] = effective_rank(features)
    return asdict(case) | {"scores": scores, "seconds": round(time.process_time() - start, 2)}


def _baseline(case: Case, data: DataSet) -> dict[str, float]:
    """Evaluate standardized features, or PCA of them with Harmony over all items."""
    parts = load_arrays(
        str(data.path),
        leave_out=data.leave_out,
        fold=case.seed,
        standardize=case.standardize,
        **data.columns,
    )
    train, new = parts.labeled()
    scale = Standardization(train)
    features = [scale(part.items).flatten(1) for part in (train, new)]
    if case.method == "harmony":
        import harmonypy
        import pandas as pd
        from sklearn.decomposition import PCA

        both = PCA(min(50, features[0].shape[1]), random_state=0).fit_transform(torch.cat(features))
        domains = torch.cat([train.domains, new.domains]).numpy().astype(str)
        found = harmonypy.run_harmony(both, pd.DataFrame({"domain": domains}), "domain")
        mixed = np.asarray(found.Z_corr)
        mixed = mixed.T if mixed.shape[0] != len(both) else mixed
        features = list(
            torch.from_numpy(np.ascontiguousarray(mixed)).float().split([len(train), len(new)])
        )
    stores = zip((train, new), features, strict=True)
    parts = Parts(*(replace(store, tensor=rows, rows=None) for store, rows in stores))
    identity: Any = nn.Identity()
    scores = run_probes(identity, parts)
    names = {f"recall_{label}": f"recall: {name}" for label, name in enumerate(train.class_names)}
    return {names.get(key, key): value for key, value in scores.items() if "_spread" not in key}


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Summarize runs: means over folds, and differences from InfoNCE paired by seed."""
    about = ("data", "method", "temperature", "share", "standardize")
    cells = by_seed(lines, about)
    records = []
    order = {name: number for number, name in enumerate(TITLES)}
    for cell in sorted(cells, key=lambda it: (it[0], it[4], it[2], order[it[1]], -it[3])):
        runs = cells[cell]
        record: dict[str, Any] = dict(zip(about, cell, strict=True))
        record |= {"loss": TITLES[record["method"]], "runs": len(runs)}
        record["scores"] = means(runs.values())
        for key, method in (("above_info_nce", "info_nce"), ("above_domains", "info_nce+domains")):
            base = cells.get((record["data"], method, record["temperature"], 1.0, "train"), {})
            if above := differences(runs, base):
                record[key] = {
                    name: score | {"better": sum(one.get(name, 0) > 0 for one in above)}
                    for name, score in means(above).items()
                }
        records.append(record)
    return records


def main() -> None:
    """Run what is missing for some minutes, and write the summary."""
    chosen = options(__doc__, only=[*SETS], minutes=30.0)
    torch.set_num_threads(1)
    journal = Journal.of_cases(RESULTS / "evidence_arrays.jsonl", Case)
    for case in plan():
        if case.data not in chosen.only or asdict(case) in journal:
            continue
        if not SETS[case.data].path.is_file():
            continue
        if time.monotonic() > chosen.until:
            break
        try:
            journal.add_scores(run(case))
        except ImportError as error:
            print(f"{case.method} is skipped: {error}", flush=True)
    lines = journal.of(map(asdict, plan()))
    write_json(RESULTS / "evidence_arrays.json", {"runs": len(lines), "records": summary(lines)})


if __name__ == "__main__":
    main()
