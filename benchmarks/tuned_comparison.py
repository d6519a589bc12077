"""Tune every method on a validation part with the same budget, then compare on the test part.

Runs are shared by several processes with one thread each. Every run has its own folder, so an
interrupted comparison continues where it stopped. Results are one JSON line per run, and a summary
with provenance.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bayescl_lab._cores import usable_cores
from bayescl_lab._files import write_atomically
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.compare.tuning import (
    Grid,
    Values,
    best,
    check_same_budget,
    name_of,
    settings_of,
)
from bayescl_lab.report.tables import Table, mean_text
from bayescl_lab.runs.folder import RunFolder, as_json
from bayescl_lab.runs.losses import BASELINE
from bayescl_lab.runs.parallel import train_runs
from bayescl_lab.runs.provenance import provenance

Results = Mapping[str, Mapping[str, Any]]
"""What each run came to, by the run's name."""


@dataclass(frozen=True)
class Plan:
    """What to tune and compare.

    Attributes:
        name: of the result files.
        title: what is compared, in a line.
        grids: what to try, by method; as many settings for each.
        tuning_seeds: of every setting that is tried; none of them is a seed of the comparison.
        settings: called as ``settings(method, values, shared=, seed=, evaluate_on=)``; makes a
            run's settings, which have ``as_config()``.
        train: trains one run; see :class:`bayescl_lab.runs.parallel.Train`.
        criterion: scores whose mean chooses a setting.
        scores: what the summary has of every method.
        titles: of methods.
        recorded: hyper-parameters that were chosen before, with the same budget, by method.
        shared_grid: settings that all methods share, tried with InfoNCE at ``shared_values``
            before anything else; nothing by default.
        shared_values: hyper-parameters of InfoNCE for that.

    Raises:
        ValueError: if one method would get more settings than another.
    """

    name: str
    title: str
    grids: Mapping[str, Grid]
    tuning_seeds: tuple[int, ...]
    settings: Callable[..., Any]
    train: Callable[..., dict[str, Any]]
    criterion: tuple[str, ...]
    scores: tuple[str, ...]
    titles: Mapping[str, str]
    recorded: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    shared_grid: Grid = field(default_factory=dict)
    shared_values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_same_budget(self.grids)


def parser_of(description: str | None, methods: Iterable[str]) -> argparse.ArgumentParser:
    """The options that every comparison has.

    Args:
        description: the docstring of the script.
        methods: names of all its methods.
    """
    known = list(methods)
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--methods", nargs="+", choices=known, default=known, metavar="METHOD")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of the comparison, from 0")
    parser.add_argument("--tune", action="store_true", help="tune and stop")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--runs", type=Path, help="folder of the runs (default: runs/NAME)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    return parser


def run_plan(plan: Plan, options: argparse.Namespace) -> dict[str, Any]:
    """Tune, compare, and write ``<name>.jsonl`` and ``<name>.json``; finished runs are kept.

    Args:
        plan: what to do.
        options: as from :func:`parser_of`.

    Returns:
        What ``<name>.json`` holds.
    """
    folder = options.runs or Path("runs") / plan.name
    for parent in (folder, options.results):
        parent.mkdir(parents=True, exist_ok=True)
    origin: dict[str, Any] = provenance()
    if find_spec("lightly"):
        origin["versions"]["lightly"] = version("lightly")
    lines: list[dict[str, Any]] = []

    def train(stage: str, runs: Mapping[str, Any]) -> Results:
        """Train runs and keep a line of each."""
        results = train_runs(
            runs, folder, train=plan.train, workers=options.workers, progress=_show
        )
        kept = ("settings", "seed", "scores", "seconds", "loss", "commit")
        for name, result in results.items():
            lines.append({"stage": stage, "run": name, **{key: result[key] for key in kept}})
        return results

    tuning = _tune(plan, options.methods, train)
    record = {
        "title": plan.title,
        "criterion": f"mean of {', '.join(plan.criterion)} on the validation part",
        "tuning_seeds": list(plan.tuning_seeds),
        "settings_tried": len(settings_of(next(iter(plan.grids.values())))),
        "seeds": list(range(options.seeds)),
        "spread": "standard deviation over seeds",
        "threads_per_run": 1,
        "workers": options.workers,
        "tuning": tuning,
        **origin,
    }
    if not options.tune:
        record["methods"] = _compare(plan, tuning, range(options.seeds), train)
        rows = [
            [entry["title"], *(mean_text(entry["scores"][name], scale=100) for name in plan.scores)]
            for entry in record["methods"].values()
        ]
        print(Table(["method", *plan.scores], rows).markdown())
    record["commits_of_runs"] = sorted({str(line["commit"]) for line in lines})
    as_lines = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
    write_atomically(options.results / f"{plan.name}.jsonl", as_lines)
    write_atomically(options.results / f"{plan.name}.json", as_json(record))
    return record


def _tune(
    plan: Plan, methods: Sequence[str], train: Callable[[str, Mapping[str, Any]], Results]
) -> dict[str, Any]:
    """Choose what all methods share, then each one's hyper-parameters, on the validation part."""

    def choose(trials: Sequence[tuple[str, Values, Values]], part: int) -> dict[str, Any]:
        """Train every setting with every seed of tuning, and choose that part of the best."""
        results = train(
            "tuning",
            {
                f"{_run_name(method, values, shared)}-seed{seed}": plan.settings(
                    method, values, shared=shared, seed=seed, evaluate_on="validation"
                )
                for method, values, shared in trials
                for seed in plan.tuning_seeds
            },
        )
        scores: dict[str, dict[str, Any]] = {}
        for trial in trials:
            name = _run_name(*trial)
            runs = [results[f"{name}-seed{seed}"]["scores"] for seed in plan.tuning_seeds]
            means = [sum(run[key] for key in plan.criterion) / len(plan.criterion) for run in runs]
            scores[name] = {"values": trial[part], "score": mean_and_spread(means)}
        return {"choice": scores[best(scores)]["values"], "scores": scores}

    grid = settings_of(plan.shared_grid)
    shared = {"choice": grid[0], "scores": {}}
    if len(grid) > 1:
        shared = choose([(BASELINE, plan.shared_values, values) for values in grid], 2)
    chosen: dict[str, Any] = {}
    for method in methods:
        if method in plan.grids:
            tried = settings_of(plan.grids[method])
            chosen[method] = choose([(method, values, shared["choice"]) for values in tried], 1)
        else:
            chosen[method] = {"choice": dict(plan.recorded.get(method, {})), "recorded": True}
    return {"shared": shared, "methods": chosen}


def _compare(
    plan: Plan,
    tuning: Mapping[str, Any],
    seeds: Sequence[int],
    train: Callable[[str, Mapping[str, Any]], Results],
) -> dict[str, Any]:
    """Train every method with its choice over several seeds and score it on the test part."""
    shared = tuning["shared"]["choice"]
    choice = {method: entry["choice"] for method, entry in tuning["methods"].items()}
    names = {method: f"{_run_name(method, choice[method], shared)}-test" for method in choice}
    runs = {
        f"{names[method]}-seed{seed}": plan.settings(
            method, values, shared=shared, seed=seed, evaluate_on="test"
        )
        for seed in seeds
        for method, values in choice.items()
    }
    results = train("test", runs)
    summary = {}
    for method, name in names.items():
        own = [results[f"{name}-seed{seed}"] for seed in seeds]
        summary[method] = {
            "title": plan.titles[method],
            "values": choice[method],
            "scores": {
                score: mean_and_spread([result["scores"][score] for result in own])
                for score in plan.scores
            },
            "seconds": mean_and_spread([result["seconds"] for result in own]),
        }
    return summary


def _run_name(method: str, values: Mapping[str, Any], shared: Mapping[str, Any]) -> str:
    """A run's name without its seed: the method, what all share, and its hyper-parameters."""
    return f"{method}-{name_of({**shared, **values}) or 'default'}"


def run_in_folder(
    settings: Any, out: Path, kind: str, work: Callable[[RunFolder], dict[str, Any]]
) -> dict[str, Any]:
    """The result of a run: read if it is finished, else made anew.

    Args:
        settings: of the run, with ``as_config()`` and ``seed``.
        out: the run folder.
        kind: what the folder calls such runs.
        work: trains, and returns ``scores`` and ``loss``.

    Raises:
        ValueError: if ``out`` holds another run.
    """
    config, origin, start = settings.as_config(), provenance(), time.perf_counter()
    if out.exists():
        folder = RunFolder.open(out, kind)
        if folder.config() != config:
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
        shutil.rmtree(out)
    folder = RunFolder.create(out, kind, config)
    result = {"settings": config, "seed": settings.seed, **work(folder)}
    result |= {"seconds": round(time.perf_counter() - start, 2), **origin}
    folder.write_result(result)
    return result


def _show(run: str, _: int, done: int) -> None:
    """Say how far a comparison is."""
    sys.stderr.write(f"\r{done} epochs: {run:<80}")
