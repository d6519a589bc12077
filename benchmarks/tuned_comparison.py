"""Tune every method on a validation part with the same budget, then compare on the test part.

Runs are shared by several processes with one thread each. Every run has its own folder, so an
interrupted comparison continues where it stopped. Results are written as one JSON line per run, and
as a summary with provenance.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rivals.library import (
    Grid,
    Progress,
    Table,
    as_json,
    check_same_budget,
    counted,
    mean_and_spread,
    mean_text,
    provenance,
    settings_of,
    train_runs,
    write_atomically,
)

BASELINE, ORACLE = "info_nce", "oracle"


@dataclass(frozen=True)
class Plan:
    """What to tune and compare.

    Attributes:
        name: of the result files.
        title: of the table.
        grids: what to try, by method; as many settings for each.
        recorded: hyper-parameters that were chosen before, with the same budget, by method.
        tuning_seeds: of every setting that is tried; none of them is a seed of the comparison.
        settings: called as ``settings(method, values, shared=, seed=, evaluate_on=)``; makes a
            run's settings, which have ``as_config()``.
        train: trains one run; see :class:`bayescl_lab.runs.parallel.Train`.
        criterion: scores whose mean chooses a setting.
        scores: columns of the table.
        shares: scores of which the share of the oracle's gap is shown.
        titles: of methods and scores.
        shared_grid: settings that all methods share, tried with InfoNCE at ``shared_values``
            before anything else; nothing by default.
        shared_values: hyper-parameters of InfoNCE for that.

    Raises:
        ValueError: if one method would get more settings than another.
    """

    name: str
    title: str
    grids: Mapping[str, Grid]
    recorded: Mapping[str, Mapping[str, Any]]
    tuning_seeds: tuple[int, ...]
    settings: Callable[..., Any]
    train: Callable[..., dict[str, Any]]
    criterion: tuple[str, ...]
    scores: tuple[str, ...]
    shares: tuple[str, ...]
    titles: Mapping[str, str]
    shared_grid: Grid = field(default_factory=dict)
    shared_values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.grids:
            check_same_budget(self.grids)


def tune(
    plan: Plan,
    methods: Sequence[str],
    runs: Path,
    *,
    workers: int,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Choose what all methods share, then each one's hyper-parameters, on the validation part.

    Args:
        plan: what to try.
        methods: for which methods; those without a grid have recorded values.
        runs: the folder of the run folders; finished runs in it are kept.
        workers: processes that train at a time.
        progress: told of every finished epoch.

    Returns:
        ``shared`` and ``methods``, by name, each with its ``choice`` and, where it was tuned, the
        ``scores`` of every setting; and one line for each run.
    """
    lines: list[dict[str, Any]] = []

    def scores_of(tried: Mapping[str, Mapping[int, Any]]) -> dict[str, dict[str, Any]]:
        """Train the runs of every setting and score each."""
        flat = {f"{name}-seed{s}": run for name, seeds in tried.items() for s, run in seeds.items()}
        results = _train(plan, flat, runs, workers, progress)
        lines.extend(_line("tuning", name, result) for name, result in results.items())
        return {name: _criterion(plan, results, name) for name in tried}

    def runs_of(
        method: str, values: Mapping[str, Any], shared: Mapping[str, Any]
    ) -> dict[int, Any]:
        """The runs of one setting by seed."""
        return {
            seed: plan.settings(method, values, shared=shared, seed=seed, evaluate_on="validation")
            for seed in plan.tuning_seeds
        }

    grid = settings_of(plan.shared_grid)
    shared_choice = {"choice": grid[0], "scores": {}}
    if len(grid) > 1:
        found = scores_of(
            {
                f"shared-{_name(shared)}": runs_of(BASELINE, plan.shared_values, shared)
                for shared in grid
            }
        )
        shared_choice = _best(grid, [found[f"shared-{_name(shared)}"] for shared in grid])
    shared = shared_choice["choice"]

    grids = {method: settings_of(plan.grids[method]) for method in methods if method in plan.grids}
    found = scores_of(
        {
            f"{method}-{_name({**shared, **values})}": runs_of(method, values, shared)
            for method, tried in grids.items()
            for values in tried
        }
    )
    chosen: dict[str, dict[str, Any]] = {}
    for method in methods:
        if method in grids:
            names = [f"{method}-{_name({**shared, **values})}" for values in grids[method]]
            chosen[method] = _best(grids[method], [found[name] for name in names])
        else:
            chosen[method] = {"choice": dict(plan.recorded.get(method, {})), "recorded": True}
    return {"shared": shared_choice, "methods": chosen}, lines


def compare(
    plan: Plan,
    choice: Mapping[str, Mapping[str, Any]],
    seeds: Sequence[int],
    runs: Path,
    *,
    shared: Mapping[str, Any] | None = None,
    workers: int,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Train every method with its choice over several seeds and score it on the test part.

    Returns:
        The summary, and one line for each run.
    """
    shared = dict(shared or {})

    def run_name(method: str, seed: int) -> str:
        """A run's name: its method, what all share, its hyper-parameters and its seed."""
        return f"{method}-{_name({**shared, **choice[method]})}-test-seed{seed}"

    settings = {
        run_name(method, seed): plan.settings(
            method, values, shared=shared, seed=seed, evaluate_on="test"
        )
        for seed in seeds
        for method, values in choice.items()
    }
    results = _train(plan, settings, runs, workers, progress)
    by_method = {method: [results[run_name(method, seed)] for seed in seeds] for method in choice}
    summary: dict[str, Any] = {
        method: {
            "title": plan.titles[method],
            "values": dict(choice[method]),
            "scores": {
                score: mean_and_spread([run["scores"][score] for run in found])
                for score in plan.scores
            },
            "seconds": mean_and_spread([run["seconds"] for run in found]),
        }
        for method, found in by_method.items()
    }
    if BASELINE in summary and ORACLE in summary:
        for entry in summary.values():
            entry["gap_closed"] = {
                score: _gap_closed(summary, entry, score) for score in plan.shares
            }
    return summary, [_line("test", name, result) for name, result in results.items()]


def run_plan(
    plan: Plan,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    runs: Path,
    results: Path,
    script: str,
    only_tune: bool = False,
    workers: int = 1,
) -> dict[str, Any]:
    """Tune, compare, and write ``<name>.jsonl``, ``<name>.json`` and ``<name>.md``.

    Args:
        plan: what to do.
        methods: for which methods.
        seeds: of the comparison.
        runs: the folder of the run folders; finished runs in it are kept.
        results: the folder of the three files.
        script: the command, for the record.
        only_tune: stop after tuning, with neither table nor test part.
        workers: processes that train at a time.

    Returns:
        What ``<name>.json`` holds.
    """
    origin = provenance() | {"command": shlex.join(["python", script, *sys.argv[1:]])}
    origin["versions"] = {**origin["versions"], **_versions("lightly")}
    runs.mkdir(parents=True, exist_ok=True)
    results.mkdir(parents=True, exist_ok=True)
    tuned, lines = tune(plan, methods, runs, workers=workers, progress=_show)
    choice = {method: entry["choice"] for method, entry in tuned["methods"].items()}
    record = {
        "title": plan.title,
        "criterion": f"mean of {', '.join(plan.criterion)} on the validation part",
        "tuning_seeds": list(plan.tuning_seeds),
        "settings_tried": len(settings_of(next(iter(plan.grids.values())))) if plan.grids else 0,
        "seeds": list(seeds),
        "spread": "standard deviation over seeds",
        "threads_per_run": 1,
        "workers": workers,
        "tuning": tuned,
        **origin,
    }
    if not only_tune:
        summary, test_lines = compare(
            plan,
            choice,
            seeds,
            runs,
            shared=tuned["shared"]["choice"],
            workers=workers,
            progress=_show,
        )
        record["methods"] = summary
        lines += test_lines
    sys.stderr.write("\n")
    record["commits_of_runs"] = sorted({str(line["commit"]) for line in lines})
    write_atomically(results / f"{plan.name}.jsonl", "".join(map(_as_line, lines)))
    write_atomically(results / f"{plan.name}.json", as_json(record))
    if not only_tune:
        write_atomically(results / f"{plan.name}.md", markdown(plan, record))
    return record


def markdown(plan: Plan, record: Mapping[str, Any]) -> str:
    """The comparison as a table: scores in percent, mean and spread, and each one's settings."""
    methods = record["methods"]
    shares = plan.shares if any("gap_closed" in entry for entry in methods.values()) else ()
    head = ["method", *(plan.titles[score] for score in plan.scores)]
    if shares:
        head.append("oracle gap closed, " + " / ".join(plan.titles[score] for score in shares))
    head += ["s per run", "settings"]
    rows = []
    for method, entry in methods.items():
        means = (mean_text(entry["scores"][score], scale=100) for score in plan.scores)
        cells = [plan.titles[method], *means]
        if shares:
            closed = [entry["gap_closed"][score] for score in shares]
            cells.append(" / ".join("-" if one is None else f"{100 * one:.0f} %" for one in closed))
        values = ", ".join(f"{name} {_short(value)}" for name, value in entry["values"].items())
        rows.append([*cells, f"{entry['seconds']['mean']:.0f}", values])
    hardware, versions = record["hardware"], record["versions"]
    commits = ", ".join(one[:12] for one in record["commits_of_runs"])
    shared = record["tuning"]["shared"]["choice"]
    common = "".join(f", {name} {_short(value)}" for name, value in shared.items())
    seeds, tried = (counted(len(record[key]), "seed") for key in ("seeds", "tuning_seeds"))
    about = (
        f"{record['title']}{common}. Accuracy in percent, mean ± standard deviation over "
        f"{seeds}. {record['settings_tried']} settings of each method over "
        f"{tried} were tried on the validation part; the best has "
        f"the highest {record['criterion'].removesuffix(' on the validation part')}."
    )
    origin = (
        f"`{record['command']}`; commit {commits}; {hardware['cpu']}, one thread per run; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
    )
    return f"{about}\n\n{Table(head, rows).markdown()}\n\n{origin}\n"


def _train(
    plan: Plan, runs: Mapping[str, Any], parent: Path, workers: int, progress: Progress | None
) -> dict[str, dict[str, Any]]:
    """Train runs; none is fine too."""
    if not runs:
        return {}
    return train_runs(runs, parent, train=plan.train, workers=workers, progress=progress)


def _criterion(plan: Plan, results: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Mean and spread over seeds of what chooses a setting."""
    scores = [results[f"{name}-seed{seed}"]["scores"] for seed in plan.tuning_seeds]
    return mean_and_spread(
        [sum(one[key] for key in plan.criterion) / len(plan.criterion) for one in scores]
    )


def _best(
    settings: Sequence[Mapping[str, Any]], scores: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """The setting of the highest mean, of equals the first, and all scores."""
    best = max(range(len(settings)), key=lambda place: scores[place]["mean"])
    return {
        "choice": dict(settings[best]),
        "scores": {
            _name(values): {"values": dict(values), "score": score}
            for values, score in zip(settings, scores, strict=True)
        },
    }


def _gap_closed(summary: Mapping[str, Any], entry: Mapping[str, Any], score: str) -> float | None:
    """(method - InfoNCE) / (oracle - InfoNCE); None if the oracle is not above InfoNCE."""
    baseline, oracle = (summary[name]["scores"][score]["mean"] for name in (BASELINE, ORACLE))
    if oracle <= baseline:
        return None
    return (entry["scores"][score]["mean"] - baseline) / (oracle - baseline)


def _line(stage: str, name: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of one run."""
    kept = ("settings", "seed", "scores", "seconds", "loss", "commit")
    return {"stage": stage, "run": name, **{key: result[key] for key in kept}}


def _as_line(value: Mapping[str, Any]) -> str:
    """A mapping as one line of JSON."""
    return json.dumps(value, allow_nan=False) + "\n"


def _name(values: Mapping[str, Any]) -> str:
    """Values as a part of a file name."""
    return "-".join(f"{name}{_short(value)}" for name, value in values.items()) or "default"


def _short(value: Any) -> str:
    """A value as short as it can be written."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _versions(*packages: str) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _show(run: str, _: int, done: int) -> None:
    """Say how far a comparison is."""
    sys.stderr.write(f"\r{done} epochs: {run:<80}")
