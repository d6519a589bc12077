"""Choose settings on a validation part, with as many tries for every loss.

Validation images or interactions are taken out of the training part; the test part plays no role,
and the seeds are not those of the comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bayescl_lab.compare.summary import SPREAD, mean_and_spread
from bayescl_lab.runs.losses import LOSSES, SHARE, SHARES, TEACHER
from bayescl_lab.runs.parallel import Progress, Train, train_runs

if TYPE_CHECKING:
    from bayescl_lab.runs.images.settings import ImageSettings
    from bayescl_lab.runs.ranking.settings import RankingSettings

Grid = Mapping[str, Sequence[Any]]
"""Values to try, by the name of a setting; every combination is tried."""

Values = Mapping[str, Any]

Settings = TypeVar("Settings", "ImageSettings", "RankingSettings")

TUNING_SEED = 1000
"""How far the seed of tried runs lies above the first one of a comparison."""

_CRITERIA = (("few_label_1", "few_label_5"), ("few_label_1",), ("knn",), ("ndcg@20",))
"""Measures whose mean is a setting's score; the first that a run has."""


@dataclass
class Trials:
    """Runs on the validation part, and the choice between their settings.

    ``seeds`` are those of every setting, ``folder`` holds the run folders, of which finished ones
    are kept, and the other arguments are those of :func:`.train_runs`. ``results`` has every run's
    ``result.json`` by its name, and ``epochs`` counts those of all.
    """

    folder: Path
    seeds: Sequence[int]
    train: Train
    workers: int = 1
    progress: Progress | None = None
    results: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    epochs: int = field(default=0, init=False)

    def choose(
        self, tried: Mapping[str, Sequence[Values]], make: Callable[[str, Values, int], Any]
    ) -> dict[str, dict[str, Any]]:
        """Train every setting with every seed and choose the best one of each group.

        A group is for example a loss; ``make`` gives a run's settings for a group, its values and a
        seed. Returns by group the ``choice`` and the ``scores`` of all that was tried.
        """
        named = {
            group: {f"{group}-{name_of(values)}": values for values in settings}
            for group, settings in tried.items()
        }
        runs = {
            f"{name}-seed{seed}": make(group, values, seed)
            for group, settings in named.items()
            for name, values in settings.items()
            for seed in self.seeds
        }
        self.results |= train_runs(
            runs, self.folder, train=self.train, workers=self.workers, progress=self.later()
        )
        self.epochs += sum(settings.epochs for settings in runs.values())
        return {
            group: _with_choice(
                {
                    name: {
                        "values": values,
                        **_score([self.results[f"{name}-seed{seed}"] for seed in self.seeds]),
                    }
                    for name, values in settings.items()
                }
            )
            for group, settings in named.items()
        }

    def later(self) -> Progress | None:
        """Progress of runs that follow those so far."""
        progress, before = self.progress, self.epochs
        if progress is None:
            return None
        return lambda name, epoch, done: progress(name, epoch, before + done)

    def record(self, losses: Mapping[str, Any]) -> dict[str, Any]:
        """The content of a result file: what was chosen for every loss, by which score."""
        names = _criterion(next(iter(self.results.values())))
        measure = f"mean of {' and '.join(names)}" if len(names) > 1 else "".join(names)
        return {
            "criterion": f"{measure} on the validation part",
            "seeds": list(self.seeds),
            "spread": SPREAD,
            "losses": dict(losses),
            "commits_of_runs": sorted({str(result["commit"]) for result in self.results.values()}),
        }


def search(
    first: Mapping[str, Values], count: int, make: Callable[[str, Values, int], Any], trials: Trials
) -> dict[str, Any]:
    """Choose the hyper-parameters of every loss of a comparison, the best of as many for each.

    The first setting is the one given. Others differ in the temperature, from a quarter to twice
    the first one. Up to half of the settings have the best of these temperatures and change one of
    the loss's own hyper-parameters each; a loss without any gets more temperatures. Everything is
    in a fixed order. ``make`` gives a run's settings for a loss, its values and a seed. Returns
    what :meth:`Trials.record` says.
    """
    changes = {loss: other_values(loss, values)[: count // 2] for loss, values in first.items()}
    tried = {
        loss: [
            {**values, "temperature": temperature}
            for temperature in temperatures(values["temperature"], count - len(changes[loss]))
        ]
        for loss, values in first.items()
    }
    chosen = trials.choose(tried, make)
    tried = {
        loss: [{**chosen[loss]["choice"], **change} for change in changed]
        for loss, changed in changes.items()
        if changed
    }
    for loss, entry in trials.choose(tried, make).items():
        chosen[loss] = _with_choice({**chosen[loss]["scores"], **entry["scores"]})
    return trials.record(chosen)


def temperatures(first: float, count: int) -> list[float]:
    """The first temperature and others, from a quarter to twice as large, that cover it evenly.

    Example:
        >>> temperatures(0.5, 4)
        [0.5, 0.354, 0.21, 0.595]
    """
    # Van der Corput's sequence: 1/2, 1/4, 3/4, 1/8, 5/8, ...
    places = [int(bin(k)[:1:-1], 2) / 2 ** k.bit_length() for k in range(1, count)]
    return [first, *(float(f"{first * 2 ** (3 * place - 2):.3g}") for place in places)]


def other_values(loss: str, values: Values) -> list[dict[str, float]]:
    """Other shares with a teacher; then the first other value of each hyper-parameter, and so on.

    Example:
        >>> other_values("info_nce_teacher", {"temperature": 0.5, "positive_share": 0.5})
        [{'positive_share': 0.1}, {'positive_share': 0.2}, {'positive_share': 1.0}]
    """
    shares = [share for share in SHARES if loss.endswith(TEACHER) and share != values[SHARE]]
    others = [
        [{name: value} for value in alternatives if value != values[name]]
        for name, alternatives in LOSSES[loss.removesuffix(TEACHER)].alternatives.items()
        if name in values
    ]
    rounds = itertools.zip_longest(*others)
    further = [change for changes in rounds for change in changes if change is not None]
    return [*({SHARE: share} for share in shares), *further]


def _with_choice(scores: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Scores with the values of the best."""
    return {"choice": scores[best(scores)]["values"], "scores": dict(scores)}


def _criterion(result: Mapping[str, Any]) -> dict[str, float]:
    """The measures whose mean is a run's score."""
    measures = result.get("probes") or result["metrics"]
    names = next(names for names in _CRITERIA if set(names) <= measures.keys())
    return {name: measures[name] for name in names}


def _score(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The score of a setting, from its runs."""
    by_run = [_criterion(result) for result in results]
    return {
        "score": mean_and_spread([sum(run.values()) / len(run) for run in by_run]),
        **{name: mean_and_spread([run[name] for run in by_run]) for name in by_run[0]},
        # Of training a model, or of fitting a baseline.
        "seconds": sum(
            float(run.get("fit_seconds", run.get("seconds_per_epoch", 0.0) * run.get("epochs", 1)))
            for run in results
        ),
    }


def best(scores: Mapping[str, Mapping[str, Any]]) -> str:
    """The name of the highest mean score; the first of equal ones.

    Example:
        >>> best({"a": {"score": {"mean": 0.5}}, "b": {"score": {"mean": 0.6}}})
        'b'
    """
    return max(scores, key=lambda name: float(scores[name]["score"]["mean"]))


def settings_of(grid: Grid) -> list[dict[str, Any]]:
    """Every combination of a grid.

    Example:
        >>> settings_of({"a": (1.0, 2.0), "b": ("x",)})
        [{'a': 1.0, 'b': 'x'}, {'a': 2.0, 'b': 'x'}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def name_of(values: Values) -> str:
    """Values as a part of a file name.

    Example:
        >>> name_of({"lr": 0.010, "split": "last"})
        'lr0.01-split-last'
    """
    return "-".join(
        f"{name}{value:g}" if isinstance(value, (int, float)) else f"{name}-{value}"
        for name, value in values.items()
    )


def check_once(name: str, values: Sequence[str], what: str = "each") -> None:
    """Require names that differ, and at least one of them."""
    if not values or len(set(values)) < len(values):
        raise ValueError(f"{name} must name {what} once, got {', '.join(values) or 'none'}")


def check_same_budget(loss_grids: Mapping[str, Grid]) -> None:
    """Require the same number of settings for every loss."""
    sizes = {loss: len(settings_of(grid)) for loss, grid in loss_grids.items()}
    if len(set(sizes.values())) != 1:
        raise ValueError(f"every loss must get the same number of settings, got {sizes}")
