"""A plan: methods with their settings, tuned, trained over seeds and summed up as one result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import Self

from bayescl.checks import check_count
from bayescl_lab.compare.result import Result, Row
from bayescl_lab.compare.summary import Score
from bayescl_lab.compare.tuning import Values, best, name_of
from bayescl_lab.runs.parallel import Progress, Train, train_runs
from bayescl_lab.runs.run import RunStart
from bayescl_lab.runs.settings import StoredSettings

Settings = TypeVar("Settings", bound=StoredSettings)

Stage = Mapping[str, Sequence[Values]]
"""What tuning tries at a time: by method, changes to the best settings so far."""

TUNING_SEED = 1000
"""How far the seed of tried runs lies above the first one of a comparison."""

_CRITERIA = (("few_label_1", "few_label_5"), ("few_label_1",), ("knn",), ("ndcg@20",))
"""Measures whose mean is a setting's score; the first that a run has."""


NOTHING = Result("", "test", {}, 0)
"""A result of which nothing is known yet."""


@dataclass(frozen=True)
class Plan(Generic[Settings]):
    """Methods to train over seeds, after choosing settings on the validation part.

    Attributes:
        methods: settings by name; their seed is replaced.
        seeds: seeds of every method.
        name: of the plan among several, part of the names of its runs.
        stages: what tuning tries.
        tuning_seeds: seeds of every setting that is tried; none of them is in ``seeds``.
        baselines: a plan of methods in which nothing is random.
        result: what is known of the result before.
        measures: those that the result keeps; None for all.
        is_timed: whether seconds are measured, so that runs must not be parallel.
    """

    train: ClassVar[Train]

    methods: Mapping[str, Settings]
    seeds: Sequence[int]
    name: str = ""
    stages: Sequence[Stage] = ()
    tuning_seeds: Sequence[int] = (TUNING_SEED,)
    baselines: Plan[Any] | None = None
    result: Result = NOTHING
    measures: Sequence[str] | None = None
    is_timed: bool = False

    def prepared(self, out: Path) -> Self:
        """Find bad input before there is a folder; returns the plan for these data."""
        del out
        return self

    def without(self, name: str) -> Self:
        """The plan without a method."""
        kept = {one: settings for one, settings in self.methods.items() if one != name}
        stages = [{one: it for one, it in stage.items() if one != name} for stage in self.stages]
        return replace(self, methods=kept, stages=stages)

    def adapted(self, settings: Settings, folder: Path, run: Mapping[str, Any]) -> Settings:
        """The settings for the test part; ``run`` is the best tried one and ``folder`` its own."""
        del folder, run
        return settings

    def finished(self, result: Result, runs: Mapping[str, Any]) -> Result:
        """The result with what ``result.json`` of one of the runs says of the data."""
        del runs
        return result

    @property
    def epochs(self) -> int:
        """Epochs of all runs, at most."""
        tried = [name for stage in self.stages for name, changes in stage.items() for _ in changes]
        runs = [*self.methods] * len(self.seeds) + tried * len(self.tuning_seeds)
        others = 0 if self.baselines is None else self.baselines.epochs
        return sum(self.methods[name].epochs for name in runs) + others  # type: ignore[attr-defined]

    def runs(self) -> dict[str, Settings]:
        """The settings of every run by its name, seed by seed."""
        return {
            self._run(name, seed): with_values(settings, {"seed": seed})
            for seed in self.seeds
            for name, settings in self.methods.items()
        }

    def _run(self, name: str, seed: int) -> str:
        return "-".join(filter(None, (self.name, name, f"seed{seed}")))

    def perform(self, work: Work) -> Result:
        """Tune, train every method with every seed, and sum up."""
        choices, final = {}, dict(self.methods)
        for name, entry in self._tuned(work).items():
            choices[name] = entry
            tried = with_values(self.methods[name], entry["choice"])
            run = self._run(best(entry["scores"]), self.tuning_seeds[0])
            final[name] = self.adapted(tried, work.places[run], work.results[run])
        plan = replace(self, methods=final)
        results = work.train(plan, plan.runs(), "runs")
        rows = {
            name: Row.of(
                [results[self._run(name, seed)] for seed in self.seeds],
                self.measures,
                tuning=choices.get(name, {}),
                keys=row.keys if (row := self.result.rows.get(name)) else {},
                printed=row.printed if row else {},
            )
            for name in final
        }
        result = replace(
            self.result,
            rows=rows,
            seeds=len(self.seeds),
            criterion=_criterion(next(iter(rows.values())).scores) if choices else "",
            baselines={} if self.baselines is None else self.baselines.perform(work).rows,
        )
        return self.finished(result, next(iter(results.values())))

    def _tuned(self, work: Work) -> dict[str, dict[str, Any]]:
        """By method the ``choice`` and the ``scores`` of all that was tried."""
        tuned: dict[str, dict[str, Any]] = {}
        for stage in self.stages:
            tried: dict[str, dict[str, Values]] = {}
            for name, changes in stage.items():
                entry = tuned.setdefault(name, {"choice": {}, "scores": {}})
                some = [{**entry["choice"], **change} for change in changes]
                tried[name] = {f"{name}-{name_of(values)}": values for values in some}
            runs = {
                self._run(place, seed): with_values(
                    self.methods[name], {**values, "seed": seed, "evaluate_on": "validation"}
                )
                for name, settings in tried.items()
                for place, values in settings.items()
                for seed in self.tuning_seeds
            }
            results = work.train(self, runs, "tuning")
            for name, settings in tried.items():
                scores = tuned[name]["scores"]
                for place, values in settings.items():
                    of_setting = [results[self._run(place, seed)] for seed in self.tuning_seeds]
                    scores[place] = {"values": values, "score": _score(of_setting).stored()}
                tuned[name]["choice"] = scores[best(scores)]["values"]
        return tuned


@dataclass
class Work:
    """Trains the runs of plans in a folder; runs with equal settings are trained once.

    Attributes:
        folder: parent of the folders of runs.
        workers: number of parallel processes, each with one thread.
        progress: called after every epoch with a run's name, its epochs, and those of all runs.
        results: ``result.json`` of every run so far by name.
        places: their folders.
    """

    folder: Path
    workers: int = 1
    progress: Progress | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[str, Path] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _epochs: float = 0.0

    def train(self, plan: Plan[Any], runs: Mapping[str, Any], part: str) -> dict[str, Any]:
        """The ``result.json`` of runs by name, trained, resumed or read."""
        same = {name: json.dumps(one.as_config(), default=str) for name, one in runs.items()}
        new = {}
        for name, identity in same.items():
            if plan.is_timed or identity not in self._known:
                self._known[identity], new[name] = name, runs[name]
        before, progress = self._epochs, self.progress

        def report(name: str, epoch: float, done: float) -> None:
            if progress is not None:
                progress(name, epoch, before + done)

        self.results |= train_runs(
            new,
            self.folder / part,
            train=plan.train,
            workers=1 if plan.is_timed else self.workers,
            progress=report,
        )
        self.places |= {name: self.folder / part / name for name in new}
        self._epochs += sum(one.epochs for one in new.values())
        return {
            name: self.results[name if name in new else self._known[identity]]
            for name, identity in same.items()
        }


def run_plans(
    kind: str,
    request: StoredSettings,
    plans: Sequence[Plan[Any]],
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Result]:
    """Perform plans in a folder, and write ``result.json``.

    Args:
        kind: the command that makes them.
        request: the settings of the command, which a resumed one keeps.
        plans: the plans; runs with equal settings are trained once.
        out: the folder; runs are in ``out/runs``, and those that choose settings in ``out/tuning``.
        resume: continue in ``out``; finished runs are kept, and an interrupted one continues from
            its last checkpoint.
        workers: number of parallel processes, each with one thread.
        progress: called after every epoch.

    Returns:
        One result per plan.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` cannot hold the
            results or holds others.
    """
    check_count("workers", workers, 1)
    start = RunStart(out, kind, request, resume=resume)
    if start.result is not None:
        return Result.read_all(start.result)
    plans = [plan.prepared(out) for plan in plans]
    with start.work() as folder:
        work = Work(folder.path, workers, progress)
        results = [replace(plan.perform(work), settings=request.as_config()) for plan in plans]
    commits = {"commits_of_runs": sorted({str(one["commit"]) for one in work.results.values()})}
    common = {"workers": workers, "threads_per_run": 1, **commits}
    stored = [result.stored() for result in results]
    return Result.read_all(
        start.finish({**(stored[0] if len(stored) == 1 else {"results": stored}), **common})
    )


def with_values(settings: Settings, values: Values) -> Settings:
    """Settings with other values, of which those that are no settings of the run are the loss's."""
    own = {one.name for one in fields(settings)} & values.keys()  # type: ignore[arg-type]
    changes = {name: values[name] for name in own}
    if others := {name: value for name, value in values.items() if name not in own}:
        loss: Any = settings.loss  # type: ignore[attr-defined]
        given = {**loss.hyperparameters, **others}
        kept = {name: value for name, value in given.items() if value is not None}
        changes["loss"] = replace(loss, hyperparameters=kept)
    return replace(settings, **changes)  # type: ignore[type-var]


def _criterion(scores: Mapping[str, Any]) -> str:
    """What tuning chooses by, in words."""
    return f"mean of {' and '.join(_chosen_by(scores))} on the validation part"


def _chosen_by(scores: Mapping[str, Any]) -> Sequence[str]:
    """The measures whose mean is a run's score."""
    return next(names for names in _CRITERIA if set(names) <= scores.keys())


def _score(runs: Sequence[Mapping[str, Any]]) -> Score:
    """The score of a setting, from its runs."""
    scores = [run.get("probes") or run["metrics"] for run in runs]
    names = _chosen_by(scores[0])
    return Score.of([sum(one[name] for name in names) / len(names) for one in scores])
