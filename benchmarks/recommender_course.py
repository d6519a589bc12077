"""Quality of recommenders against CPU seconds: ours by users, and models that need no gradients.

    BAYESCL_DATA=data python benchmarks/recommender_course.py --data ml-100k --choose
    BAYESCL_DATA=data python benchmarks/recommender_course.py --data ml-100k --seeds 0 1 2 3 4
    BAYESCL_DATA=data python benchmarks/recommender_course.py --data gowalla --choose
    BAYESCL_DATA=data python benchmarks/recommender_course.py --data gowalla --seeds 0 1

One thread. A seed is trained as ``bayescl train ranking`` trains, and evaluated on the test split
after some epochs, with and without propagation. The seconds do not include evaluation. ``--choose``
trains with a seed of its own and evaluates on the validation split: InfoNCE chooses settings for
all losses, and each loss its propagation and exponent. Finished runs stay in journals, so the
script continues where it stopped.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from harness import (
    RESULTS,
    Journal,
    keep_freed_memory,
    learn,
    means,
    options,
    papers_split,
    write_json,
)

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.encoders import MatrixFactorization
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import Popularity, Scorer
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.provenance import git_commit
from bayescl_lab.runs.result import Score

BAYESIAN = {"alpha": 0.9, "beta": 0.7}
LOSSES = {"info_nce": {}, "debiased": {}, "hard": {}, "bayesian": BAYESIAN}


SPARSE = {"dim": 64, "temperature": 0.12, "batch_size": 256, "epochs": 20, "every": 20, "lr": 0.01}
SETTINGS: dict[str, dict[str, Any]] = {
    "ml-100k": SPARSE
    | {"dim": 128, "temperature": 0.15, "batch_size": 32, "epochs": 16, "every": 2},
    "ml-1m": SPARSE
    | {"dim": 256, "temperature": 0.15, "batch_size": 188, "epochs": 24, "every": 4, "lr": 0.02},
    "gowalla": SPARSE,
    "yelp2018": SPARSE,
}
TRIED: dict[str, list[dict[str, Any]]] = {
    "ml-100k": [{}],
    "ml-1m": [{}, {"temperature": 0.13}],
    "gowalla": [{}, {"lr": 0.02}],
    "yelp2018": [{"lr": 0.02}, {"lr": 0.02, "temperature": 0.15}],  # the rate of Gowalla
}
RANKINGS = [(0, 0.0), (0, 0.25), (1, 0.0), (1, 0.25), (1, 0.5)]  # propagate, item_norm_exponent
SHOWN = [(0, 0.0), (1, 0.25), (1, 0.5)]  # on test, besides the chosen one
DENSE = ("ml-100k", "ml-1m")  # propagation harms
CHOICE, CHOOSING_SEED = RESULTS / "recommender-choice.json", 1000
TITLES = {
    "popularity": "popularity",
    "ials": "iALS",
    "ease": "EASE",
    "info_nce": "InfoNCE",
    "debiased": "debiased",
    "hard": "hard",
    "bayesian": "Bayesian",
    "graph filter": "GF-CF",  # this and the next two are in the journal, by an earlier version
    "bsl": "BSL",
    "psl": "PSL",
}
DRAWN, MEASURES = 4096, ("recall@20", "ndcg@20")
EASE_PENALTY = {"ml-100k": 300.0, "ml-1m": 1000.0}
IALS_WEIGHTS: dict[str, dict[str, Any]] = {
    "ml-100k": {"unobserved_weight": 0.5, "regularization": 0.01},
    "ml-1m": {"dim": 128, "unobserved_weight": 0.1, "regularization": 0.01},
    "gowalla": {"unobserved_weight": 0.01, "regularization": 0.006},
    "yelp2018": {"unobserved_weight": 0.02, "regularization": 0.006},
}
PLAIN: dict[str, Callable[[Interactions, str], Scorer]] = {
    "popularity": lambda train, _: Popularity(train),
    "ials": lambda train, data: IALS(train, **IALS_WEIGHTS[data]),
    "ease": lambda train, data: EASE(train, EASE_PENALTY[data]),
}
"""Models that need no gradients."""


def trained(
    train: Interactions,
    of: Mapping[str, Any],
    loss: str,
    seed: int,
) -> Iterator[tuple[int, RankingModule, float]]:
    """Train one seed; after each epoch its number, the module and the CPU seconds so far."""
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        encoder = MatrixFactorization(train, of["dim"])
    batches = UserBatches(train, of["batch_size"], seed)
    module = RankingModule(
        encoder=encoder,
        loss=RankingLossSettings(loss, {"temperature": of["temperature"], **LOSSES[loss]}).build(
            density=train.density
        ),
        candidates=DRAWN,
        learning_rate=of["lr"],
        total_steps=of["epochs"] * len(batches),
        seed=seed,
    )
    made = module.configure_optimizers()
    optimizer, schedule = made["optimizer"], made["lr_scheduler"]["scheduler"]
    seconds = 0.0
    for epoch in range(of["epochs"]):
        start = time.process_time()
        batches.set_epoch(epoch)
        for step, batch in enumerate(batches):
            learn(module.step_loss(batch, epoch, step), optimizer, schedule)
        seconds += time.process_time() - start
        yield epoch + 1, module, seconds


def course(
    parts: RankingParts,
    of: Mapping[str, Any],
    loss: str,
    seed: int,
    rankings: Sequence[tuple[int, float]],
) -> list[dict[str, Any]]:
    """Train one seed; a row of figures each time it is judged."""
    rows = []
    for epoch, module, seconds in trained(parts.train, of, loss, seed):
        if epoch % of["every"] == 0:
            for layers, exponent in rankings:
                module.propagate, module.item_norm_exponent = layers, exponent
                row = {"epoch": epoch, "propagate": layers, "item_norm_exponent": exponent}
                rows.append({**row, "cpu_s": round(seconds, 2), **judged(module.scorer(), parts)})
    return rows


def judged(scorer: Scorer, parts: RankingParts) -> dict[str, float]:
    """The two figures of the page's table."""
    metrics = evaluate_ranking(scorer, parts).metrics
    return {name: round(metrics[name], 5) for name in MEASURES}


def fitted(parts: RankingParts, method: str, data: str) -> list[dict[str, Any]]:
    """The one row of a model without gradients."""
    start = time.process_time()
    scorer = PLAIN[method](parts.train, data)
    seconds = round(time.process_time() - start, 2)
    return [{"cpu_s": seconds, **judged(scorer, parts)}]


def choose(data: str, methods: Sequence[str]) -> None:
    """Try settings on the validation split, and write those with the highest NDCG@20."""
    before = json.loads(CHOICE.read_text()) if CHOICE.is_file() else {}
    parts = loaded(data, evaluate_on="validation")
    done = Journal(RESULTS / "recommender-choice.jsonl", key=itemgetter(0))

    def scored(loss: str, values: dict[str, Any]) -> tuple[float, tuple[int, float]]:
        """The highest NDCG of a run, and how it ranked."""
        of = SETTINGS[data] | values
        key = [data, loss, {**of}]
        if key not in done:
            end = {**of, "every": of["epochs"]}
            rankings = RANKINGS[: 1 if data in DENSE else None]
            rows = course(parts, end, loss, CHOOSING_SEED, rankings)
            done.add([key, rows, git_commit()])
        best = max(done[key][1], key=itemgetter("ndcg@20"))
        return best["ndcg@20"], (best["propagate"], best["item_norm_exponent"])

    values = max(TRIED[data], key=lambda values: scored("info_nce", values)[0])
    chosen = {
        "settings": SETTINGS[data] | values,
        "rankings": {loss: scored(loss, values)[1] for loss in methods},
    }
    tried = [
        {"data": key[0], "method": key[1], "title": TITLES[key[1]], **key[2], **row}
        for key, rows, _ in done.lines.values()
        for row in rows
    ]
    ratios = {"validation": popularity(parts), "test": popularity(loaded(data))}
    body = {"chosen": {data: chosen}, "popularity": {data: ratios}}
    merged = {name: {**before.get(name, {}), **own} for name, own in body.items()}
    write_json(CHOICE, {"seed": CHOOSING_SEED, **merged, "tried": tried})


def loaded(data: str, **part: Any) -> RankingParts:
    """Data in the split that papers use."""
    return load_interactions(**papers_split(data), **part)


def popularity(parts: RankingParts) -> float:
    """Mean popularity of items in held-out pairs divided by the mean in training pairs.

    It is 1 for a random part. It explains what validation cannot choose for the test split.
    """
    users_of = np.bincount(parts.train.matrix.indices, minlength=parts.train.num_items)
    held_out, trained_on = (users_of[of.matrix.indices] for of in (parts.evaluation, parts.train))
    return float(held_out.mean() / trained_on.mean())


def main() -> None:
    """Measure what is missing and write it."""
    chosen = options(
        __doc__, "choose", data=(*SETTINGS,), seeds=[0], methods=[*PLAIN, *LOSSES], threads=1
    )
    keep_freed_memory()
    if chosen.choose:
        choose(chosen.data, [method for method in chosen.methods if method in LOSSES])
        return
    choices = json.loads(CHOICE.read_text())["chosen"]
    of = choices[chosen.data]["settings"]
    shown = SHOWN[: 1 if chosen.data in DENSE else None]
    rankings = {
        loss: list(dict.fromkeys([tuple(one), *shown]))
        for loss, one in choices[chosen.data]["rankings"].items()
    }
    parts = loaded(chosen.data)
    done = Journal(RESULTS / "recommender-course.jsonl", key=itemgetter(0))
    methods = [it for it in chosen.methods if it != "ease" or chosen.data in EASE_PENALTY]
    for seed, method in product(chosen.seeds, methods):
        key = [chosen.data, method, 0 if method in PLAIN else seed]
        if key not in done and method in PLAIN:
            done.add([key, fitted(parts, method, chosen.data), git_commit()])
        elif key not in done:
            rows = course(parts, of, method, seed, rankings[method])
            done.add([key, rows, git_commit()])
    rows = summary(list(done.lines.values()), choices)
    last = {(row["data"], row["method"]): row["epoch"] for row in rows}
    final = [row for row in rows if row["epoch"] == last[row["data"], row["method"]]]
    body = {"final": final, "beyond": beyond(final), "course": rows}
    write_json(RESULTS / "recommender-course.json", body)
    draw([row for row in rows if row["data"] == "ml-100k"])


def draw(rows: list[dict[str, Any]]) -> None:
    """Quality against CPU seconds, a line for each trained method and a point for each other."""
    figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        places = [[max(row["cpu_s"], 0.01) for row in own], [row["ndcg@20"]["mean"] for row in own]]
        axes.plot(*places, "o-", markersize=4, label=TITLES[method])
    axes.set(xscale="log", xlabel="CPU seconds, one thread", ylabel="NDCG@20")
    axes.legend(frameon=False)
    figure.savefig(RESULTS / "recommender-course.png", dpi=150)


def summary(runs: list[Any], choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each point of each method's course: means over seeds, and the spread.

    Whether validation has chosen a row is left empty where there was nothing to choose.
    """

    def is_chosen(data: str, method: str, ranking: list[Any]) -> str:
        own = choices.get(data, {"rankings": {}})["rankings"].get(method)
        return "" if own is None else "yes" if own == ranking else "no"

    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    names = ("epoch", "propagate", "item_norm_exponent")
    for (data, method, _), rows, *_ in runs:
        for row in sorted(rows, key=lambda row: [row.get(name, 0) for name in names]):
            points.setdefault((data, method, *map(row.get, names)), []).append(row)
    return [
        {
            **dict(zip(("data", "method", "epoch", "propagate", "exponent"), key, strict=True)),
            "title": TITLES[key[1]],
            "chosen": is_chosen(key[0], key[1], [*key[3:]]),
            "seeds": len(rows),
            "cpu_s": statistics.median(row["cpu_s"] for row in rows),
            **means(rows, MEASURES),
        }
        for key, rows in points.items()
    ]


def beyond(final: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """How far the Bayesian loss is above InfoNCE when both are ranked alike, paired by seed."""
    names = ("data", "propagate", "exponent")
    of = {(row["method"], *map(row.get, names)): row for row in final}
    rows = []
    for (method, *place), own in of.items():
        other = of.get(("info_nce", *place))
        if method != "bayesian" or other is None or own["seeds"] != other["seeds"]:
            continue
        differences = {
            name: (Score.of(own[name]["values"]) - Score.of(other[name]["values"])).stored()
            for name in MEASURES
        }
        rows.append({**dict(zip(names, place, strict=True)), "seeds": own["seeds"], **differences})
    return rows


if __name__ == "__main__":
    main()
