"""Results of runs and comparisons, on images, arrays and interactions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import format_error
from bayescl_lab._types import Config, Values
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import BASELINE

_ORIGIN = (
    *("command", "started", "commit", "hardware", "versions"),
    *("workers", "threads_per_run", "commits_of_runs"),
)
SPREAD = "standard deviation over seeds"
"""Description of the spread of a score."""


@dataclass(frozen=True)
class Score:
    """Score over seeds.

    Attributes:
        mean: Mean of the values.
        spread: Standard deviation of the values. ``None`` for a single value.
        values: One value per seed.
    """

    mean: float
    spread: float | None = None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Sequence[float]) -> Score:
        """Return the score of some values.

        Example:
            >>> Score.of([1.0, 3.0])
            Score(mean=2.0, spread=1.4142135623730951, values=(1.0, 3.0))
        """
        spread = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), spread, tuple(values))

    def stored(self) -> Config:
        """Return plain values for a file."""
        return {"mean": self.mean, "spread": self.spread, "values": list(self.values)}

    def __sub__(self, other: Score) -> Score:
        """Return the difference to another score, seed by seed."""
        pairs = zip(self.values, other.values, strict=True)
        return Score.of([ours - theirs for ours, theirs in pairs])

    @property
    def sign(self) -> int:
        """Sign of the mean if it is at least two standard errors from 0, else 0."""
        if self.spread is None or abs(self.mean) < 2 * self.spread / math.sqrt(len(self.values)):
            return 0
        return (self.mean > 0) - (self.mean < 0)

    def text(self, form: str = ".1f", *, scale: float = 1.0) -> str:
        """Format mean and spread; only the mean for a single seed.

        Args:
            form: Format of the mean. The spread has the same format without a sign.
            scale: Factor, such as 100 for percent.

        Example:
            >>> Score(0.123, 0.04).text("+.1f", scale=100)
            '+12.3 ± 4.0'
        """
        mean = f"{scale * self.mean:{form}}"
        if float(mean) == 0:  # remove the sign of a rounded -0.0
            mean = f"{0.0:{form}}"
        if self.spread is None:
            return mean
        return f"{mean} ± {scale * self.spread:{form.removeprefix('+')}}"


_CONFIG = ConfigDict(populate_by_name=True)


def _stored_as(name: str, **options: Any) -> Any:
    """Return a dataclass field with another name in files."""
    return Field(validation_alias=name, serialization_alias=name, **options)


@dataclass(frozen=True)
class Trial:
    """Values that tuning tried, and their score on the validation split."""

    values: Values
    score: Score


@dataclass(frozen=True)
class Tuning:
    """Trials of a method by the name of their runs, and the chosen values."""

    choice: Values = field(default_factory=dict)
    scores: Mapping[str, Trial] = field(default_factory=dict)

    @classmethod
    def of(cls, trials: Mapping[str, Trial]) -> Tuning:
        """Choose the values with the highest mean score. Ties go to the first."""
        best = max(trials.values(), key=lambda trial: trial.score.mean)
        return cls(best.values, trials)


@dataclass(frozen=True, config=_CONFIG)
class Row:
    """Scores and settings of one method.

    Attributes:
        scores: Scores by measure. Accuracies lie in [0, 1].
        settings: Settings of the runs, without the seed. Empty for a single run.
        seconds: Seconds per epoch. ``None`` without epochs.
        epochs: Number of epochs.
        tuning: Chosen values and all trials. Empty without tuning.
        recalls: Recall of each class by the 10 nearest neighbors, by the name of the class.
    """

    scores: Mapping[str, Score] = _stored_as("metrics")
    settings: Values = field(default_factory=dict)
    seconds: Score | None = _stored_as("seconds_per_epoch", default=None)
    epochs: int | None = None
    tuning: Tuning = field(default_factory=Tuning)
    recalls: Mapping[str, Score] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        runs: Sequence[Result],
        measures: Sequence[str] | None = None,
        tuning: Tuning | None = None,
    ) -> Row:
        """Create the row of a method from the results of its runs, seed by seed.

        With ``measures``, only these are kept.
        """
        rows = [run.row for run in runs]
        scores = [{name: score.mean for name, score in row.scores.items()} for row in rows]
        seconds = [row.seconds.mean for row in rows if row.seconds is not None]
        return cls(
            {
                name: Score.of([one[name] for one in scores])
                for name in (scores[0] if measures is None else measures)
                if all(name in one for one in scores)
            },
            {name: value for name, value in runs[0].settings.items() if name != "seed"},
            Score.of(seconds) if seconds else None,
            rows[0].epochs,
            tuning or Tuning(),
            {
                name: Score.of([row.recalls[name].mean for row in rows if name in row.recalls])
                for name in dict.fromkeys(name for row in rows for name in row.recalls)
            },
        )


@dataclass(frozen=True, config=_CONFIG)
class Result:
    """Result of a run, or of methods over seeds, with baselines.

    Attributes:
        data: Name of the data set. Empty for methods on several data sets.
        part: Part of the data that was used for evaluation, or other data.
        rows: Rows by method. A run has one.
        seeds: Number of seeds.
        baselines: Rows of deterministic methods.
        groups: Scores of some of the users, by the name of the group in ``sizes``.
        encoder: Name of the encoder.
        sizes: Sizes of the data.
        settings: Settings of the run, or options of the comparison.
        criterion: Criterion of tuning. Empty without tuning.
        skipped: Counts of skipped and merged data, by phrase.
        remarks: Further remarks for the reader.
        origin: Provenance.
    """

    data: str = ""
    part: str = _stored_as("evaluated_on", default="")
    rows: Mapping[str, Row] = _stored_as("losses", default_factory=dict)
    seeds: int = 0
    baselines: Mapping[str, Row] = field(default_factory=dict)
    groups: Mapping[str, Row] = field(default_factory=dict)
    encoder: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: Values = field(default_factory=dict)
    criterion: str = ""
    skipped: Mapping[str, int] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    origin: Values = field(default_factory=dict)

    @classmethod
    def read_all(cls, file: Path, identity: str | None = None) -> list[Result]:
        """Read all results in a JSON file, if any; raise ``ValueError`` if it is damaged.

        A digest of the file is checked, and required if the ``identity`` of its run is given.
        """
        content = read_json(file, identity)
        try:
            every = [{**content, **one} for one in content.get("results", [content])]
            for one in every:
                one["origin"] = {name: one[name] for name in _ORIGIN if one.get(name) is not None}
            results = [one for one in every if "losses" in one]
            return TypeAdapter(list[cls]).validate_python(results)  # type: ignore[valid-type]
        except (TypeError, ValueError) as error:
            said = format_error(error) if isinstance(error, ValidationError) else error
            raise ValueError(f"{file} is damaged: {said}") from None

    @classmethod
    def read_file(cls, file: Path) -> Result:
        """Read the only result in a JSON file."""
        (result,) = cls.read_all(file)
        return result

    def stored(self) -> Config:
        """Return plain values for a file."""
        plain = TypeAdapter(type(self)).dump_python(
            self, mode="json", by_alias=True, exclude_defaults=True
        )
        origin = plain.pop("origin", {})
        return {**plain, "spread": SPREAD, **origin}

    @property
    def row(self) -> Row:
        """The row of a single run."""
        (row,) = self.rows.values()
        return row

    @property
    def every(self) -> dict[str, Row]:
        """Rows of methods, baselines and groups."""
        return {**self.rows, **self.baselines, **self.groups}

    @property
    def measures(self) -> list[str]:
        """Measures of every method."""
        return list(next(iter(self.rows.values())).scores)

    @property
    def base(self) -> str:
        """Baseline of differences: InfoNCE, or else the first method."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    def differences(self, base: str = BASELINE) -> dict[str, dict[str, Score]]:
        """Return the differences to ``base`` by method and measure, seed by seed.

        The result is empty if there is no method ``base``.
        """
        if base not in self.rows:
            return {}
        below = self.rows[base].scores
        return {
            name: {measure: score - below[measure] for measure, score in row.scores.items()}
            for name, row in self.rows.items()
            if row.scores and name != base
        }


def is_percent(measure: str) -> bool:
    """Return whether a measure is an accuracy, which is shown in percent."""
    return "@" not in measure
