"""Tune every method on a validation part with the same budget, then compare on the test part.

Runs are shared by several processes with one thread each. Every finished run is a line of a
journal, so an interrupted comparison continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from harness import RESULTS, Journal, write_json
from joblib import Parallel, delayed

from bayescl_lab._cores import usable_cores
from bayescl_lab.compare.summary import SPREAD, mean_and_spread
from bayescl_lab.compare.tuning import Grid, best, check_same_budget, name_of, settings_of
from bayescl_lab.report.tables import Table, mean_text
from bayescl_lab.runs.losses import BASELINE
from bayescl_lab.runs.provenance import git_commit, provenance

Options = Mapping[str, Any]
"""Settings of a run by name, hyper-parameters of its method among them."""


@dataclass(frozen=True)
class Plan:
    """What to tune and compare; refused if one method would get more settings than another.

    ``train`` must be importable. Called with ``method``, ``seed``, ``evaluate_on`` and the options,
    it trains one run and returns ``scores`` and ``loss``.
    """

    name: str  # of the result files
    title: str  # what is compared, in a line
    grids: Mapping[str, Grid]  # what to try, by method
    tuning_seeds: tuple[int, ...]  # of every setting that is tried; not those of the comparison
    train: Callable[..., dict[str, Any]]
    criterion: tuple[str, ...]  # scores whose mean chooses a setting
    scores: tuple[str, ...]  # what the summary has of every method
    titles: Mapping[str, str]
    fixed: Options = field(default_factory=dict)  # of every run
    recorded: Mapping[str, Options] = field(default_factory=dict)  # chosen before, by method
    shared_grid: Grid = field(default_factory=dict)
    """Options that all methods share, tried before with the baseline at ``shared_values``."""
    shared_values: Options = field(default_factory=dict)
    baseline: str = BASELINE

    def __post_init__(self) -> None:
        check_same_budget(self.grids)


def parser_of(description: str | None, methods: Iterable[str]) -> argparse.ArgumentParser:
    """The options that every comparison has; the first line of its docstring describes it."""
    known = list(methods)
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--methods", nargs="+", choices=known, default=known, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of the comparison, from 0")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the journal")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser


class Runs:
    """Finished runs in a journal, and those of this comparison."""

    def __init__(self, plan: Plan, path: Path, workers: int) -> None:
        self.plan, self.workers = plan, workers
        self.journal = Journal(path, key=itemgetter("run"))
        self.lines: list[dict[str, Any]] = []

    def train(
        self, evaluate_on: str, seeds: Sequence[int], trials: Sequence[tuple[str, Options]]
    ) -> list[list[dict[str, Any]]]:
        """Train methods with their options and every seed, and return a line of each run."""
        fixed = {**self.plan.fixed, "evaluate_on": evaluate_on}
        runs = [
            [{**fixed, **options, "method": method, "seed": seed} for seed in seeds]
            for method, options in trials
        ]
        missing = [run for of_trial in runs for run in of_trial if run not in self.journal]
        parallel = Parallel(self.workers, return_as="generator_unordered")
        for number, line in enumerate(parallel(delayed(_timed)(self.plan, run) for run in missing)):
            self.journal.add(line)
            sys.stderr.write(f"\r{number + 1} of {len(missing)} runs: {line['run']['method']:<40}")
        lines = [[self.journal[run] for run in of_trial] for of_trial in runs]
        self.lines += [line for of_trial in lines for line in of_trial]
        return lines


def _timed(plan: Plan, run: Options) -> dict[str, Any]:
    """Train one run with one thread."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    result = plan.train(**run)
    seconds = round(time.perf_counter() - start, 2)
    return {"run": run, **result, "seconds": seconds, "commit": git_commit()}


def run_plan(plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Tune, compare, and write ``<name>.jsonl`` and ``<name>.json``, whose content is returned."""
    runs = Runs(plan, options.runs / f"{plan.name}.jsonl", options.workers)
    record = {**compared(plan, options, runs), **provenance()}
    rows = [
        {
            "method": entry["title"],
            **{name: mean_text(entry["scores"][name], scale=100) for name in plan.scores},
        }
        for entry in record["methods"].values()
    ]
    print(Table(rows).markdown())
    path = write_json(options.results / f"{plan.name}.json", record)
    path.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in runs.lines))
    return record


def compared(plan: Plan, options: argparse.Namespace, runs: Runs) -> dict[str, Any]:
    """Tune and compare: what was chosen, and the scores of every method on the test part."""
    tuning = _tune(plan, options.methods, runs)
    shared = tuning["shared"]["choice"]
    choice = {method: entry["choice"] for method, entry in tuning["methods"].items()}
    trials = [(method, {**shared, **values}) for method, values in choice.items()]
    results = runs.train("test", range(options.seeds), trials)
    return {
        "title": plan.title,
        "criterion": f"mean of {', '.join(plan.criterion)} on the validation part",
        "tuning_seeds": list(plan.tuning_seeds),
        "settings_tried": len(settings_of(next(iter(plan.grids.values())))),
        "seeds": list(range(options.seeds)),
        "spread": SPREAD,
        "threads_per_run": 1,
        "workers": options.workers,
        "tuning": tuning,
        "methods": {
            method: {
                "title": plan.titles[method],
                "values": values,
                "scores": {
                    score: mean_and_spread([line["scores"][score] for line in lines])
                    for score in plan.scores
                },
                "seconds": mean_and_spread([line["seconds"] for line in lines]),
            }
            for (method, values), lines in zip(choice.items(), results, strict=True)
        },
        "commits_of_runs": sorted({str(line["commit"]) for line in runs.lines}),
    }


def _tune(plan: Plan, methods: Sequence[str], runs: Runs) -> dict[str, Any]:
    """Choose what all methods share, then each one's hyper-parameters, on the validation part."""

    def choose(method: str, tried: Sequence[Options], further: Options) -> dict[str, Any]:
        """Train every setting with every seed of tuning, and choose the best."""
        trials = [(method, {**further, **values}) for values in tried]
        results = runs.train("validation", plan.tuning_seeds, trials)
        scores: dict[str, dict[str, Any]] = {}
        for values, lines in zip(tried, results, strict=True):
            means = [fmean(line["scores"][name] for name in plan.criterion) for line in lines]
            scores[name_of(values)] = {"values": values, "score": mean_and_spread(means)}
        return {"choice": scores[best(scores)]["values"], "scores": scores}

    grid = settings_of(plan.shared_grid)
    alone: dict[str, Any] = {"choice": grid[0], "scores": {}}
    shared = choose(plan.baseline, grid, plan.shared_values) if len(grid) > 1 else alone
    chosen = {
        method: choose(method, settings_of(plan.grids[method]), shared["choice"])
        if method in plan.grids
        else {"choice": dict(plan.recorded.get(method, {})), "recorded": True}
        for method in methods
    }
    return {"shared": shared, "methods": chosen}
