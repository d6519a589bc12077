"""Plans: methods that are tuned, trained over seeds and summarized in one result."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from bayescl_lab._fields import Count, checked
from bayescl_lab._types import Config, Values
from bayescl_lab.compare.tuning import name_of
from bayescl_lab.runs.parallel import Progress, Train, train_runs
from bayescl_lab.runs.result import Result, Row, Score, Trial, Tuning
from bayescl_lab.runs.run import RunStart
from bayescl_lab.runs.settings import StoredSettings

Settings = TypeVar("Settings", bound=StoredSettings)

Stage = Mapping[str, Sequence[Values]]
"""One stage of tuning: changes to the best settings so far, by method."""

TUNING_SEED = 1000
"""Offset of the seeds of tuning from the first seed of a comparison."""

_CRITERIA = (("few_label_1", "few_label_5"), ("few_label_1",), ("knn",), ("ndcg@20",))
"""Measures that are averaged to the score of a setting. The first available entry is used."""


@dataclass(frozen=True)
class Plan(Generic[Settings]):
    """Methods to train over seeds, after choosing settings on the validation split.

    Attributes:
        methods: Settings by name. Their seed is replaced.
        seeds: Seeds of every method.
        train: Function that trains one run.
        name: Name of the plan, part of the names of its runs.
        stages: Stages of tuning.
        tuning_seeds: Seeds of every tried setting, disjoint from ``seeds``.
        baselines: Plan of deterministic methods.
        remarks: Remarks for the reader of the result.
        measures: Measures to keep in the result. ``None`` for all.
        is_timed: Whether seconds are measured. Runs are then not parallel.
    """

    methods: Mapping[str, Settings]
    seeds: Sequence[int]
    train: Train
    name: str = ""
    stages: Sequence[Stage] = ()
    tuning_seeds: Sequence[int] = (TUNING_SEED,)
    baselines: AnyPlan | None = None
    remarks: Sequence[str] = ()
    measures: Sequence[str] | None = None
    is_timed: bool = False

    def prepared(self, out: Path) -> Self:
        """Check the input before a folder is created; return the plan for these data."""
        del out
        return self

    def adapted(self, settings: Settings, folder: Path) -> Settings:
        """Adjust the chosen settings before training for the test split.

        ``folder`` has the run with the best validation score. The default changes nothing.
        """
        del folder
        return settings

    @property
    def epochs(self) -> int:
        """Largest possible number of epochs of all runs."""
        own = sum(
            settings.epochs * (len(self.seeds) + len(self.tuning_seeds) * tried)
            for name, settings in self.methods.items()
            for tried in [sum(len(stage.get(name, ())) for stage in self.stages)]
        )
        return own + (0 if self.baselines is None else self.baselines.epochs)

    def runs(self) -> dict[str, Settings]:
        """Return the settings of all runs by name, seed by seed."""
        return {
            self._run(name, seed): settings.with_values({"seed": seed})
            for seed in self.seeds
            for name, settings in self.methods.items()
        }

    def _run(self, name: str, seed: int) -> str:
        return "-".join(filter(None, (self.name, name, f"seed{seed}")))

    def perform(self, work: Work) -> Result:
        """Tune, train every method with every seed, and summarize."""
        tuned, final = self._tuned(work), dict(self.methods)
        for name, tuning in tuned.items():
            tried = self.methods[name].with_values(tuning.choice)
            run = self._run(f"{name}-{name_of(tuning.choice)}", self.tuning_seeds[0])
            final[name] = self.adapted(tried, work.folder / "tuning" / run)
        plan = replace(self, methods=final)
        results = work.train(plan, plan.runs(), "runs")
        rows = {
            name: Row.of(
                [results[self._run(name, seed)] for seed in self.seeds],
                self.measures,
                tuning=tuned.get(name, Tuning()),
            )
            for name in final
        }
        first = next(iter(results.values()))
        data: Config = {}
        if len({run.data for run in results.values()}) == 1:
            data = {"data": first.data, "encoder": first.encoder, "sizes": first.sizes}
        return Result(
            **data,
            part=first.part,
            rows=rows,
            seeds=len(self.seeds),
            criterion=_criterion(next(iter(rows.values())).scores) if tuned else "",
            baselines={} if self.baselines is None else self.baselines.perform(work).rows,
            remarks=self.remarks,
        )

    def _tuned(self, work: Work) -> dict[str, Tuning]:
        """Tune, and return the trials of each method."""
        tuned: dict[str, Tuning] = {}
        for stage in self.stages:
            tried: dict[str, tuple[str, Values]] = {}
            for name in (it for it in self.methods if it in stage):
                choice = tuned.get(name, Tuning()).choice
                some = [{**choice, **change} for change in stage[name]]
                tried |= {f"{name}-{name_of(values)}": (name, values) for values in some}
            runs = {
                self._run(trial, seed): self.methods[name].with_values(
                    {**values, "seed": seed, "evaluate_on": "validation"}
                )
                for trial, (name, values) in tried.items()
                for seed in self.tuning_seeds
            }
            results = work.train(self, runs, "tuning")
            for trial, (name, values) in tried.items():
                of_setting = [results[self._run(trial, seed)] for seed in self.tuning_seeds]
                before = tuned.get(name, Tuning()).scores
                tuned[name] = Tuning.of({**before, trial: Trial(values, _score(of_setting))})
        return tuned


AnyPlan = Plan[Any]
"""Plan of any settings."""


@dataclass
class Work:
    """Train the runs of one or more plans in a folder. Runs with equal settings are trained once.

    Attributes:
        folder: Parent of the run folders.
        workers: Number of parallel processes, each with one thread.
        progress: Function called after every epoch with the name of a run, its finished epochs and
            the finished epochs of all runs.
        results: Results of all finished runs by name.
    """

    folder: Path
    workers: int = 1
    progress: Progress | None = None
    results: dict[str, Result] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)
    _epochs: float = 0.0

    def train(self, plan: AnyPlan, runs: Values, part: str) -> dict[str, Result]:
        """Train, resume or read runs; return their results by name."""
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
        self._epochs += sum(one.epochs for one in new.values())
        return {
            name: self.results[name if name in new else self._known[identity]]
            for name, identity in same.items()
        }


def run_plans(
    kind: str,
    request: Values,
    plans: Sequence[AnyPlan],
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Result]:
    """Perform plans in a folder, and write ``result.json``.

    Args:
        kind: Command of the plans.
        request: Options of the command as plain values. They must not change on resuming.
        plans: Plans to perform. Runs with equal settings are trained once.
        out: Folder of the results. Runs are in ``out/runs``, runs of tuning in ``out/tuning``.
        resume: Whether to resume in ``out``. Finished runs are kept, and an interrupted run
            continues from its last checkpoint.
        workers: Number of parallel processes, each with one thread.
        progress: Function called after every epoch.

    Returns:
        One result per plan.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is not writable or
            holds other results.
    """
    checked("workers", workers, Count)
    start = RunStart(out, kind, request, resume=resume)
    if start.results:
        return start.results
    plans = [plan.prepared(out) for plan in plans]
    with start.work() as folder:
        work = Work(folder.path, workers, progress)
        results = [replace(plan.perform(work), settings=request) for plan in plans]
    commits = sorted({str(one.origin.get("commit")) for one in work.results.values()})
    return start.finish(*results, workers=workers, threads_per_run=1, commits_of_runs=commits)


def _criterion(scores: Values) -> str:
    """Return the criterion of tuning in words."""
    return f"mean of {' and '.join(_chosen_by(scores))} on the validation split"


def _chosen_by(scores: Values) -> Sequence[str]:
    """Return the measures that are averaged to the score of a run."""
    return next(names for names in _CRITERIA if set(names) <= scores.keys())


def _score(runs: Sequence[Result]) -> Score:
    """Return the score of a setting from its runs."""
    names = _chosen_by(runs[0].row.scores)
    return Score.of([sum(run.row.scores[name].mean for name in names) / len(names) for run in runs])
