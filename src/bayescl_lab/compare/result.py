"""What a comparison or a table of the paper comes to, of images and recommenders alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import format_error
from bayescl_lab.compare.summary import SPREAD, Score
from bayescl_lab.runs.folder import read_json
from bayescl_lab.runs.losses import BASELINE, LOSSES, ORACLE

RESULT_FILES = ("result.json", "comparison.json")
"""Files that hold a result: of a run or comparison, and of a comparison that is kept."""

_ORIGIN = (
    *("command", "started", "commit", "hardware", "versions"),
    *("workers", "threads_per_run", "commits_of_runs"),
)
SECONDS = "seconds_per_epoch"
"""The measure of tables of time."""


_CONFIG = ConfigDict(populate_by_name=True)


def _stored_as(name: str, **options: Any) -> Any:
    """A field that has another name in files."""
    return Field(validation_alias=name, serialization_alias=name, **options)


@dataclass(frozen=True, config=_CONFIG)
class Printed:
    """A figure as the paper prints it, what stands after "±", and what is wrong with it."""

    value: float
    spread: float | None = None
    note: str = ""


@dataclass(frozen=True, config=_CONFIG)
class Row:
    """The figures of one method.

    Attributes:
        scores: by measure. Accuracies are shares of 1.
        settings: of its runs, but for the seed.
        seconds: per epoch, over seeds; None for what has no epochs.
        epochs: number of epochs.
        tuning: the values chosen and the score of everything tried; empty if nothing was.
        keys: what identifies the row in a table of the paper, by column.
        printed: the paper's figures by measure.
    """

    scores: Mapping[str, Score] = _stored_as("metrics")
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: Score | None = _stored_as(SECONDS, default=None)
    epochs: int | None = None
    tuning: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, Printed] = field(default_factory=dict)

    @classmethod
    def of(
        cls, runs: Sequence[Mapping[str, Any]], measures: Sequence[str] | None = None, **more: Any
    ) -> Row:
        """The row of a method, from the ``result.json`` of its runs, seed by seed.

        Only some ``measures`` are kept, if these are given.
        """
        scores = [run.get("probes", run.get("metrics", {})) for run in runs]
        first = runs[0]
        seconds = [run[SECONDS] for run in runs if SECONDS in run]
        if SECONDS in (measures or ()):
            scores = [{SECONDS: one} for one in seconds]
        return cls(
            {
                name: Score.of([one[name] for one in scores])
                for name in (scores[0] if measures is None else measures)
                if name in scores[0]
            },
            {name: value for name, value in first["settings"].items() if name != "seed"},
            Score.of(seconds) if seconds else None,
            first.get("epochs"),
            **more,
        )


@dataclass(frozen=True, config=_CONFIG)
class Result:
    """Methods over seeds on the same data, with what they are compared with.

    Attributes:
        data: name of the data set.
        part: the part that all were evaluated on.
        rows: by method.
        seeds: number of seeds.
        baselines: methods in which nothing is random.
        encoder: name of the encoder.
        sizes: counts of the data.
        settings: that all methods share, and by method the values that differ.
        criterion: what tuning chose by; empty without tuning.
        title: the title of a table of the paper.
        remarks: what a reader must know.
        origin: provenance.
    """

    data: str = ""
    part: str = _stored_as("evaluated_on")
    rows: Mapping[str, Row] = _stored_as("losses")
    seeds: int = 0
    baselines: Mapping[str, Row] = field(default_factory=dict)
    encoder: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = ""
    title: str = ""
    remarks: Sequence[str] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Result:
        """The result in the content of a file."""
        try:
            return TypeAdapter(cls).validate_python({**content, "origin": origin_of(content)})
        except ValidationError as error:
            raise ValueError(format_error(error)) from None

    @classmethod
    def read_all(cls, content: Mapping[str, Any]) -> list[Result]:
        """The results in a file of one or several; none in that of a run."""
        several = content.get("results", [content] if "losses" in content else [])
        return [cls.read({**content, **one}) for one in several]

    @classmethod
    def read_file(cls, file: Path) -> Result:
        """The result in a JSON file."""
        return cls.read(read_json(file))

    def stored(self) -> dict[str, Any]:
        """Plain values for a file."""
        plain = TypeAdapter(type(self)).dump_python(
            self, mode="json", by_alias=True, exclude_defaults=True
        )
        return {**plain, "spread": SPREAD, **plain.pop("origin", {})}

    @property
    def every(self) -> dict[str, Row]:
        """Methods and baselines."""
        return {**self.rows, **self.baselines}

    @property
    def measures(self) -> list[str]:
        """Measures of every method."""
        return list(next(iter(self.rows.values())).scores)

    @property
    def few(self) -> list[str]:
        """Measures with few labels."""
        return [name for name in self.measures if name.startswith("few_label_")]

    @property
    def base(self) -> str:
        """The method that others are compared with: InfoNCE, or else the first."""
        return BASELINE if BASELINE in self.rows else next(iter(self.rows))

    def differences(self, base: str = BASELINE) -> dict[str, dict[str, Score]]:
        """By method and measure, how far each lies above another, seed by seed.

        There are none if ``base`` was not compared.
        """
        if base not in self.rows:
            return {}
        below = self.rows[base].scores
        return {
            name: {measure: score - below[measure] for measure, score in row.scores.items()}
            for name, row in self.rows.items()
            if row.scores and name != base
        }

    def gap_closed(self, name: str, measure: str) -> float | None:
        """(method - InfoNCE) / (oracle - InfoNCE) of the means.

        None if the oracle is not above InfoNCE, or one of them was not compared.
        """
        if not {BASELINE, ORACLE} <= self.rows.keys():
            return None
        baseline, oracle, method = (
            self.rows[one].scores[measure].mean for one in (BASELINE, ORACLE, name)
        )
        return (method - baseline) / (oracle - baseline) if oracle > baseline else None


def origin_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance in a file."""
    return {name: content[name] for name in _ORIGIN if content.get(name) is not None}


def is_percent(measure: str) -> bool:
    """Whether a measure is an accuracy, which is shown in percent; metrics of rankings are not."""
    return "@" not in measure


def needs_labels(method: str) -> bool:
    """Whether a method is an oracle."""
    return method in LOSSES and LOSSES[method].needs_labels
