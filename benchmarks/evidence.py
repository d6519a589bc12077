"""Where which loss helps: data sets, temperatures, numbers of classes and of labels, and rivals.

    BAYESCL_DATA=data python benchmarks/evidence.py
    BAYESCL_DATA=data python benchmarks/evidence.py --parts tune compare --sets digits

Two parts, each resumable; every finished run is a line of ``benchmarks/results/evidence.jsonl``:

- ``tune``: every method has as many settings, and one is chosen on a validation part with five
  labels of each class, by the mean of all scores.
- ``compare``: the chosen settings on the test part, with no label, 1, 5 or 20 of each class.

``own`` is the accuracy of a linear classifier learned from the labels that the loss knew; for
methods without labels, from the same labels. Writes ``benchmarks/results/evidence.json``: means and
spreads over seeds; and ``docs/_static/gains.svg`` with its dark twin.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import torch
from evidence_methods import (
    LABELLED_BATCH,
    TITLES,
    Step,
    label_spreading,
    method,
    own_classifier,
)
from evidence_sets import CLASSES, DataSet, data_set
from harness import PICTURES, RESULTS, Journal, options, save_light_and_dark, write_json
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from sound import known
from torch import Tensor, nn

from bayescl_lab.compare.summary import mean_and_spread

LABELS = (1, 5, 20)

LABEL_FREE = ("info_nce", "bayesian", "oracle", "attracting_oracle")
RIVALS = ("cross_entropy", "supcon", "pseudo")
TUNING_SEED = 1000
_TEMPERATURES = (0.1, 0.3, 0.5)
GRIDS: dict[str, dict[str, tuple[float, ...]]] = {
    "info_nce": {"temperature": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)},
    "bayesian": {"temperature": _TEMPERATURES, "alpha": (0.8, 1.0)},
    **{rival: {"temperature": _TEMPERATURES, "weight": (0.3, 1.0)} for rival in RIVALS},
    "oracle": {"temperature": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)},
    "attracting_oracle": {"temperature": (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)},
}
"""Six settings of each method."""

SEEDS = {"digits": 4, "words": 4, "speakers": 2, "questions": 3, "cifar10-jpeg": 2}
FEW = {"words": 2}
"""Seeds of rivals and oracles, where they are fewer."""

CHOSEN_ON = {"speakers": "words"}
"""Sets whose settings are those of another."""

PHOTOGRAPHS = "cifar10-jpeg"
"""Only a temperature is chosen there; the attracting oracle has InfoNCE's."""

JUDGED = tuple(TITLES[name] for name in ("info_nce", "spreading", *RIVALS))
"""Methods whose labels a classifier uses, too."""


@dataclass(frozen=True)
class Case:
    """One run."""

    data: str  # one of evidence_sets.CLASSES
    method: str  # a key of GRIDS
    values: dict[str, Any] = field(default_factory=dict)  # its hyper-parameters
    labels: int = 0  # of each class that it knows
    seed: int = 0  # of weights, views, order and which labels are known
    evaluate_on: str = "test"  # or "validation"
    head: bool = True  # whether there is a projection head


def run(case: Case) -> dict[str, Any]:
    """Train on one thread, judge and return the record of a case."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    data = data_set(case.data, case.evaluate_on)
    torch.manual_seed(case.seed)
    encoder, head = data.network()
    head = head if case.head else nn.Identity()
    labels = known(data.labels, case.labels, case.seed)
    with torch.no_grad():
        length = encoder.eval()(data.plain(torch.arange(2))).shape[1]
    about = {"classes": CLASSES[case.data], "features": length}
    loss = method(case.method, case.values, **about)
    seconds = _train(data, encoder, head, loss, labels)
    encoder.eval()
    features, unseen = data.features(encoder)
    record: dict[str, Any] = {"scores": data.judged(features, unseen)}
    arrays = (unseen, data.evaluated)
    if case.labels:
        record["own"] = {str(case.labels): own_classifier(features, labels, *arrays)}
        if hasattr(loss, "classifier"):
            with torch.no_grad():
                guesses = loss.classifier(unseen).argmax(1)
            record["classifier"] = float((guesses == data.evaluated).float().mean())
    else:
        record["own"], record["spreading"] = {}, {}
        for count in LABELS:
            drawn = known(data.labels, count, case.seed)
            record["own"][str(count)] = own_classifier(features, drawn, *arrays)
            wanted = (case.seed == TUNING_SEED and count == 5) or case.evaluate_on == "test"
            if case.method == "info_nce" and wanted:
                record["spreading"][str(count)] = label_spreading(features, drawn, *arrays)
    record |= {"loss_seconds": seconds, "seconds": time.perf_counter() - start}
    return asdict(case) | record


def _train(
    data: DataSet,
    encoder: nn.Module,
    head: nn.Module,
    loss: nn.Module,
    labels: Tensor,
) -> float:
    """Train in place; the seconds in the loss."""
    parameters = [*encoder.parameters(), *head.parameters(), *loss.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=data.learning_rate)
    labelled = (labels >= 0).nonzero().squeeze(1)
    steps = len(data.labels) // data.batch_size
    total = steps * data.epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    seconds = 0.0
    for module in (encoder, head, loss):
        module.train()
    for number in range(total):
        if number % steps == 0:
            order = torch.randperm(len(data.labels))
        rows = order[number % steps * data.batch_size :][: data.batch_size]

        def embedded(rows: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
            first, second = (encoder(view) for view in data.views(rows))
            return (first, second), (head(first), head(second))

        features, embeddings = embedded(rows)
        drawn = None
        if loss.wants_labelled and len(labelled):
            some = labelled[torch.randperm(len(labelled))[:LABELLED_BATCH]]
            drawn = (*embedded(some), labels[some])
        step = Step(
            features,
            embeddings,
            data.labels[rows],
            drawn,
            lambda rows=rows: encoder(data.plain(rows)),
            number / total,
        )
        began = time.thread_time()
        value = loss(step)
        seconds += time.thread_time() - began
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
    return seconds


def tuning(data: str) -> Iterator[Case]:
    """The settings of every method; on photographs, temperatures of InfoNCE."""
    if data == PHOTOGRAPHS:
        for seed, temperature in product(range(SEEDS[data]), (0.05, 0.1, 0.25, 0.5)):
            yield Case(data, "info_nce", {"temperature": temperature}, 0, seed, "validation")
        return
    for name, grid in GRIDS.items():
        for values in product(*grid.values()):
            labels = 0 if name in LABEL_FREE else 5
            setting = dict(zip(grid, values, strict=True))
            yield Case(data, name, setting, labels, TUNING_SEED, "validation")


def comparison(data: str, chosen: dict[str, dict[str, Any]]) -> Iterator[Case]:
    """The chosen settings with every number of labels, seed by seed."""
    some = data in ("speakers", PHOTOGRAPHS)
    for seed in range(SEEDS[data]):
        yield Case(data, "info_nce", chosen["info_nce"], 0, seed)
        if seed >= FEW.get(data, SEEDS[data]):
            continue
        for name in chosen:
            if name in LABEL_FREE and name != "info_nce":
                yield Case(data, name, chosen[name], 0, seed)
            elif name in RIVALS:
                for labels in LABELS if seed == 0 and not some else (5,):
                    yield Case(data, name, chosen[name], labels, seed)


def run_of(line: dict[str, Any]) -> dict[str, Any]:
    """What says which run a line of the journal is of: its case."""
    return {field.name: line[field.name] for field in fields(Case)}


def finished(records: Journal, cases: Iterable[Case]) -> list[dict[str, Any]]:
    """The records of those cases that are finished."""
    return [records[asdict(case)] for case in cases if asdict(case) in records]


def value_of(record: dict[str, Any]) -> float:
    """The mean of all scores, which chooses a setting."""
    own = record["own"].get("5", record["own"].get(str(record["labels"])))
    return statistics.mean([*record["scores"].values(), own])


def choice(data: str, records: Journal) -> dict[str, dict[str, Any]]:
    """The best setting of every method."""
    data = CHOSEN_ON.get(data, data)
    values: dict[str, dict[str, list[float]]] = {}
    for record in finished(records, tuning(data)):
        settings = values.setdefault(record["method"], {})
        settings.setdefault(json.dumps(record["values"]), []).append(value_of(record))
    best = {
        name: json.loads(max(settings, key=lambda setting: statistics.mean(settings[setting])))
        for name, settings in values.items()
    }
    if data == PHOTOGRAPHS and best:
        best["attracting_oracle"] = best["info_nce"]
    return best


def summary(records: Journal) -> dict[str, Any]:
    """Means and spreads over seeds, in percent and percentage points."""
    chosen = {data: choice(data, records) for data in SEEDS}
    runs = {}
    for data, values in chosen.items():
        if values:
            of_data = finished(records, comparison(data, values))
            if {"info_nce", "attracting_oracle"} <= {record["method"] for record in of_data}:
                runs[data] = of_data
    compared = {data: compared_rows(of_data) for data, of_data in runs.items()}
    return {
        "choice": chosen,
        "comparison": compared,
        "own": own_rows(compared, {data: spreading(of_data) for data, of_data in runs.items()}),
        "runs": len(records.lines),
    }


def compared_rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each method and number of labels."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["method"], record["labels"]), []).append(record)
    baseline, ceiling = groups["info_nce", 0], groups["attracting_oracle", 0]
    order = list(TITLES)
    rows = []
    for (name, labels), runs in sorted(groups.items(), key=lambda g: (order.index(g[0][0]), g[0])):
        known = "all" if "oracle" in name else str(labels)
        row: dict[str, Any] = {"method": TITLES[name], "labels": known, "seeds": len(runs)}
        for score in runs[0]["scores"]:
            row[score] = _text([100 * run["scores"][score] for run in runs])
            row[f"{score}_gain"] = _gain(runs, baseline, score)
            whole = _gain(ceiling, baseline, score)["mean"]
            row[f"{score}_way"] = row[f"{score}_gain"]["mean"] / whole
        row["own"] = {
            count: [100 * max(run["own"][count], run.get("classifier", 0)) for run in runs]
            for count in map(str, LABELS)
            if all(count in run["own"] for run in runs)
        }
        rows.append(row)
    return rows


def spreading(records: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Accuracies by label spreading on InfoNCE's features, with its best setting for each count."""
    runs = [record for record in records if record["method"] == "info_nce"]
    return {
        count: max(
            ([100 * run["spreading"][count][name] for run in runs] for name in tried),
            key=statistics.mean,
        )
        for count, tried in runs[0]["spreading"].items()
    }


def own_rows(
    compared: dict[str, list[dict[str, Any]]], spread: dict[str, dict[str, list[float]]]
) -> list[dict[str, Any]]:
    """Accuracy of a classifier from the labels that the loss knew, by data, labels and method."""
    rows = []
    for data, of_data in compared.items():
        for count in map(str, LABELS):
            row: dict[str, Any] = {"data": data, "labels": int(count), **dict.fromkeys(JUDGED, "")}
            accuracies = {
                each["method"]: each["own"].get(count)
                for each in of_data
                if each["labels"] == count or each["method"] == TITLES["info_nce"]
            }
            accuracies[TITLES["spreading"]] = spread[data].get(count)
            for name, values in accuracies.items():
                if values and name in JUDGED:
                    row[name] = _text(values)
            if any(row[method] for method in JUDGED):
                rows.append(row)
    return rows


DRAWN = {  # methods and numbers of known labels: what a reader sees, and its colour
    ("bayesian", "0"): ("Bayesian", "#8a8f98"),
    ("supcon", "5"): ("SupCon, 5 labels", "#d0663c"),
}


def drawn(compared: dict[str, list[dict[str, Any]]], ink: str) -> Figure:
    """Gains over InfoNCE with one label of each class, with spreads over seeds, by data set."""
    name_of = {title: name for name, title in TITLES.items()}
    gains = {
        data: {(name_of[row["method"]], row["labels"]): row["few_label_1_gain"] for row in rows}
        for data, rows in compared.items()
        if data != PHOTOGRAPHS  # no method of these ran there
    }
    figure, axis = plt.subplots(figsize=(8, 0.7 * len(gains) + 1.3))
    for place, of_data in enumerate(gains.values()):
        for number, (key, (_, colour)) in enumerate(DRAWN.items()):
            if gain := of_data.get(key):
                height, spread = place + 0.16 * (number - 1.5), gain.get("spread", 0.0)
                axis.errorbar(gain["mean"], height, xerr=spread, fmt="o", color=colour)
    for name, colour in DRAWN.values():
        axis.plot([], [], "o", color=colour, label=name)
    axis.axvline(0, color=ink, linewidth=0.8)
    axis.set_yticks(range(len(gains)), gains)
    axis.invert_yaxis()
    axis.set_xlabel("1 label of each class, points above InfoNCE", color=ink)
    figure.legend(loc="upper center", ncols=len(DRAWN), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.9))
    return figure


def _text(values: list[float], sign: str = "") -> str:
    """Mean and standard deviation; the latter only of several values."""
    deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}.1f}{deviation}"


def _gain(runs: list[dict[str, Any]], baseline: list[dict[str, Any]], score: str) -> dict[str, Any]:
    """Mean and spread of the difference to InfoNCE with the same seed, in points."""
    by_seed = {run["seed"]: run["scores"][score] for run in baseline}
    both = [run for run in runs if run["seed"] in by_seed]
    return mean_and_spread([100 * (run["scores"][score] - by_seed[run["seed"]]) for run in both])


def main() -> None:
    """Train what is missing, then summarise."""
    chosen = options(__doc__, parts=["tune", "compare"], sets=list(SEEDS), workers=1)
    records = Journal(RESULTS / "evidence.jsonl", run_of)
    parallel = Parallel(chosen.workers, return_as="generator_unordered")
    for part, data in product(chosen.parts, chosen.sets):
        if part == "tune":
            cases = tuning(CHOSEN_ON.get(data, data))
        else:
            cases = comparison(data, choice(data, records))
        missing = [case for case in cases if asdict(case) not in records]
        for record in parallel(delayed(run)(case) for case in missing):
            records.add(record)
            figures = ", ".join(f"{k} {100 * v:.1f}" for k, v in record["scores"].items())
            print(f"{run_of(record)}: {figures}; {record['seconds']:.0f} s", flush=True)
    result = summary(records)
    write_json(RESULTS / "evidence.json", result)
    save_light_and_dark(PICTURES / "gains.svg", partial(drawn, result["comparison"]))


if __name__ == "__main__":
    main()
