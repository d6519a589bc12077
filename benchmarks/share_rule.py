"""Choose the share of the positive without labels: does the effective rank of features tell?

    BAYESCL_DATA=data python benchmarks/share_rule.py --minutes 60

The rule: of the shares 0.5, 0.2 and 0.1, take the smallest one at which the effective rank of the
encoder's features (RankMe) is at least 85 % of the rank without a teacher. If there is none, use no
teacher. Synthetic sets, spoken digits and questions come from ``evidence.py``, with InfoNCE at
temperature 0.2 and seeds 1 to 3. Sensors, watch and cells are read from the journal of
``evidence_arrays.py``, with ``domains=`` at temperature 0.5 and a seed per fold.

Finished runs are lines of ``benchmarks/results/share_rule.jsonl`` and are not run again. Writes
``benchmarks/results/share_rule.json``: for each set the chosen share of each seed, its gain over
share 0.5 and over no teacher, the gain of the best share, and the worst seed.

Reference:
    Garrido et al., RankMe, ICML 2023.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import Any

import torch
from evidence import SEEDS, Case, trained
from evidence_sets import SETS, data_set, effective_rank, why_absent
from harness import RESULTS, Journal, options, text, write_json

SHARES = (1.0, 0.5, 0.2, 0.1)
KEPT = 0.85  # smallest effective rank, relative to the rank without a teacher
MEASURES = ("few_label_1", "knn")

Runs = dict[float, dict[str, float]]
"""Scores and effective rank by share."""


def measured(name: str, share: float, seed: int) -> dict[str, Any]:
    """Train, and return effective rank and scores."""
    data, start = data_set(name), time.process_time()
    encoder, _ = trained(Case(name, share=share, seed=seed), data)
    rank = effective_rank(data.features(encoder)[0])
    scores = data.scores(encoder) | {"effective_rank": rank}
    seconds = round(time.process_time() - start, 2)
    return {"data": name, "share": share, "seed": seed, "scores": scores, "seconds": seconds}


def chosen_share(runs: Runs) -> float:
    """Return the share that the rule takes."""
    ranks = {
        share: run["effective_rank"] / runs[1.0]["effective_rank"] for share, run in runs.items()
    }
    return min(share for share, rank in ranks.items() if rank >= KEPT)


def verdict(name: str, runs: Iterable[Runs]) -> dict[str, Any]:
    """Compare the chosen share of each seed with share 0.5, no teacher and the best share."""
    runs = list(runs)
    chosen = [chosen_share(one) for one in runs]
    record: dict[str, Any] = {"data": name, "seeds": len(runs), "chosen": chosen}
    for share in SHARES[1:]:
        ranks = [one[share]["effective_rank"] / one[1.0]["effective_rank"] for one in runs]
        record[f"rank_{share}"] = fmean(ranks)
    for measure in MEASURES:
        measure_of = [{share: one[share].get(measure) for share in SHARES} for one in runs]
        if None in measure_of[0].values():  # questions have no k-NN
            continue
        means = {share: fmean(one[share] for one in measure_of) for share in SHARES}
        best = max(means, key=lambda share: means[share])
        above = [one[share] - one[0.5] for one, share in zip(measure_of, chosen, strict=True)]
        record[measure] = {
            "none": means[1.0],
            "above_half": fmean(above),
            "worst_above_half": min(above),
            "above_none": fmean(above) + means[0.5] - means[1.0],
            "best": best,
            "best_above_half": means[best] - means[0.5],
        }
    return record


def is_of_arrays(line: dict[str, Any]) -> bool:
    """Whether a run of ``evidence_arrays.py`` is one of ``domains=``, with or without a teacher."""
    standard = line["temperature"] == 0.5 and line["standardize"] == "train"
    return standard and line["method"] in ("info_nce+domains", "info_nce+domains+teacher")


def complete(lines: Iterable[dict[str, Any]]) -> dict[str, list[Runs]]:
    """The runs of each set and seed that has every share."""
    folds: dict[tuple[str, int], Runs] = {}
    for line in lines:
        folds.setdefault((line["data"], line["seed"]), {})[line["share"]] = line["scores"]
    found: dict[str, list[Runs]] = {}
    for (name, _), runs in folds.items():
        if set(SHARES) <= set(runs):
            found.setdefault(name, []).append(runs)
    return found


def main() -> None:
    """Run what is missing for some minutes, and write the summary."""
    chosen = options(__doc__, only=[*SETS], minutes=60.0)
    torch.set_num_threads(1)
    journal = Journal(RESULTS / "share_rule.jsonl", itemgetter("data", "seed", "share"))
    for seed, name, share in product(SEEDS, chosen.only, SHARES):
        if (name, seed, share) in journal or time.monotonic() > chosen.until or why_absent(name):
            continue
        journal.add_scores(measured(name, share, seed))
    arrays = Journal(RESULTS / "evidence_arrays.jsonl", key=text).lines.values()
    own = journal.of(product(SETS, SEEDS, SHARES))
    runs = complete([*filter(is_of_arrays, arrays), *own])
    records = [verdict(name, of_seeds) for name, of_seeds in runs.items()]
    write_json(RESULTS / "share_rule.json", {"runs": len(journal.lines), "records": records})


if __name__ == "__main__":
    main()
